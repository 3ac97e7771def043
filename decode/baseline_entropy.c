//go:build cgo

#include "bfs_baseline.h"

#include <string.h>

static inline __attribute__((always_inline)) void put(uint8_t *to, int16_t v) { memcpy(to, &v, 2); }

/* last_value extends the bits of a step's last value to a coefficient by shifting them down below
 * their inverted first bit, which gives the right value if it is positive, and one less than that
 * if it is negative. If there are no bits, the value is 0. */
static inline __attribute__((always_inline)) int16_t last_value(uint64_t bits, const bfs_step *e, int64_t sign)
{
    const int64_t extended = ((int64_t)(bits << (e->before & 63)) >> 1) ^ sign;
    return (int16_t)((extended >> (e->shift & 63)) + (int64_t)((uint64_t)extended >> 63));
}

/* slow_step does a step that ends a block with its last coefficient. If the step would leave the
 * block, or if the code is longer than a look-up, slow_step decodes only the first symbol. It
 * returns 0 if a code is invalid, or if a block would have more than 64 coefficients. */
static __attribute__((noinline)) int slow_step(bfs_stream *s)
{
    bfs_refill(s);
    const bfs_step *e = s->table->step + (s->bits >> (64 - BFS_LOOKUP));
    const size_t in_block = (uintptr_t)s->at & 127;
    size_t at = in_block + e->advance;
    if (at == 128 && !e->end) {
        put(s->at + e->first, e->value);
        put(s->at + e->last, last_value(s->bits, e, INT64_MIN));
        bfs_consume(s, e->length);
    } else {
        const bfs_code code = bfs_codes_find(&s->table->codes, s->bits);
        const int size = code.symbol & 15, run = in_block ? code.symbol >> 4 : 0;
        if (code.length == 0)
            return 0;
        bfs_consume(s, code.length);
        at = in_block + 2 * run + 2;
        if (size || !in_block) {
            if (at > 128)
                return 0;
            put(s->at + 2 * run, (int16_t)bfs_value(s->bits, size));
            bfs_consume(s, size);
        } else if (run < 15) {
            at = 128;
        } else if (at > 128) {
            return 0;
        }
    }
    s->at += at - in_block;
    s->table = at == 128 ? s->phase->dc : s->phase->ac;
    s->phase += at == 128;
    return 1;
}

/* NEXT_TABLE moves to the next table without a branch; compilers would make one, which processors
 * mispredict once per block. OPAQUE hides a constant that would otherwise be loaded again and
 * again. */
#if defined(__x86_64__)
#define OPAQUE(x) __asm__("" : "+r"(x))
#define NEXT_TABLE(table, phase, ended)                                                     \
    do {                                                                                    \
        const bfs_phase *following = phase + 1;                                             \
        table = phase->ac;                                                                  \
        __asm__("cmpb $0, %2\n\tcmovne %3, %0\n\tcmovne %4, %1"                             \
                : "+r"(table), "+r"(phase)                                                  \
                : "m"(ended), "m"(phase->dc), "r"(following)                                \
                : "cc");                                                                    \
    } while (0)
#else
#define OPAQUE(x) (void)0
#define NEXT_TABLE(table, phase, ended)                  \
    do {                                                 \
        table = ended ? phase->dc : phase->ac;           \
        phase += ended != 0;                             \
    } while (0)
#endif

#define ONE bfs_entropy_portable
#define TWO bfs_entropies_portable
#define TARGET
#include "bfs_entropy.h"

#if defined(__x86_64__)
#define ONE bfs_entropy_bmi2
#define TWO bfs_entropies_bmi2
#define TARGET __attribute__((target("bmi,bmi2")))
#include "bfs_entropy.h"
#endif
