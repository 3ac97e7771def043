//go:build cgo

#include "bfs_baseline.h"

#include <string.h>

static inline __attribute__((always_inline)) void put(uint8_t *to, int16_t v) { memcpy(to, &v, 2); }

/* one_symbol decodes one symbol: one whose code is longer than a look-up, or that the steps left
 * because the next is in another block. It returns 0 at an invalid code, and where a block would
 * have more than 64 coefficients. */
static __attribute__((noinline)) int one_symbol(bfs_stream *s)
{
    const bfs_table *t = s->table;
    const uintptr_t in_block = (uintptr_t)s->at & 127;
    const int first = in_block == 0;
    uint8_t *block = s->at - in_block;
    /* Reading the bits again gives at least 57 of them. */
    const uint64_t unread = s->count & 63;
    const uint8_t *from = s->from - (unread + 7) / 8;
    uint64_t skip = (8 - unread % 8) % 8, bits = bfs_load(from) << skip;

    const bfs_code code = bfs_codes_find(&t->codes, bits);
    if (code.length == 0)
        return 0;
    const int size = code.symbol & 15, run = first ? 0 : code.symbol >> 4;
    size_t at = in_block + 2 * run;
    if (size || first) {
        if (at > 126)
            return 0;
        int64_t v = size ? (int64_t)(bits << code.length >> (64 - size)) : 0;
        if (size && v < 1 << (size - 1))
            v -= (1 << size) - 1;
        put(block + at, (int16_t)v);
        at += 2;
    } else if (run == 15) {
        at += 2;
        if (at > 128)
            return 0;
    } else {
        at = 128;
    }
    s->at = block + at;
    s->table = at == 128 ? s->phase->dc : s->phase->ac;
    s->phase += at == 128;
    skip += code.length + size;
    from += skip / 8;
    skip %= 8;
    s->bits = bfs_load(from) << skip;
    s->from = from + 7;
    s->count = 56 - skip;
    return 1;
}

/* NEXT_TABLE: compilers make a branch of it, which is mispredicted once a block. OPAQUE hides a
 * constant that would otherwise be loaded again and again. */
#if defined(__x86_64__)
#define OPAQUE(x) __asm__("" : "+r"(x))
#define NEXT_TABLE(table, phase, at)                                                        \
    do {                                                                                    \
        const bfs_phase *following = phase + 1;                                             \
        table = phase->ac;                                                                  \
        __asm__("test $127, %b2\n\tcmovz %3, %0\n\tcmovz %4, %1"                            \
                : "+r"(table), "+r"(phase)                                                  \
                : "q"(at), "m"(phase->dc), "r"(following)                                   \
                : "cc");                                                                    \
    } while (0)
#else
#define OPAQUE(x) (void)0
#define NEXT_TABLE(table, phase, at)                     \
    do {                                                 \
        const int ended = ((uintptr_t)at & 127) == 0;    \
        table = ended ? phase->dc : phase->ac;           \
        phase += ended;                                  \
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
