//go:build cgo

#include "bfs_progressive.h"

/* bfs_symbols_make makes the table for a DHT segment's counts and symbols. Values with more bits
 * than most are left to the slow path, which refuses them. It returns 0 if libjpeg refuses the
 * codes. */
int bfs_symbols_make(bfs_symbols *s, const uint8_t *definition, int most)
{
    enum { ZRL = 0xf0 };
    bfs_code known[1 << BFS_SYMBOL_BITS];
    if (!bfs_codes_make(&s->codes, definition, BFS_SYMBOL_BITS, known))
        return 0;
    for (int i = 0; i < 1 << BFS_SYMBOL_BITS; i++) {
        const bfs_code c = known[i];
        const uint8_t size = c.symbol & 15;
        s->symbol[i] = (bfs_symbol){.run = BFS_NO_RUN};
        if (c.length && size <= most && (size || c.symbol == 0 || c.symbol == ZRL))
            s->symbol[i] = (bfs_symbol){(uint8_t)(c.length + size), c.length, size, (uint8_t)((c.symbol >> 4) + 1), c.symbol ? 0 : 127};
    }
    return 1;
}

static inline __attribute__((always_inline)) void put(uint8_t *to, int v)
{
    const int16_t coefficient = (int16_t)v;
    memcpy(to, &coefficient, 2);
}

/* run_of returns the length of a run of blocks, the first of which ends here. */
static inline __attribute__((always_inline)) int run_of(bfs_stream *s, int bits)
{
    const int run = (1 << bits) + (int)(s->bits >> 1 >> (63 - bits));
    bfs_consume(s, bits);
    return run;
}

/* one_symbol decodes a symbol of a first pass that is not in the table. It returns the new
 * position, or NULL if the symbol is invalid. */
static __attribute__((noinline)) uint8_t *one_symbol(bfs_stream *s, bfs_band *b, uint8_t *at)
{
    const int past = 2 * (63 - b->last), start = past + 2 * b->first;
    const bfs_code c = bfs_codes_find(&b->symbols.codes, s->bits);
    const int size = c.symbol & 15, run = c.symbol >> 4;
    uint8_t *const block = (uint8_t *)((uintptr_t)at & ~(uintptr_t)127);
    if (c.length == 0 || size + b->low > 15)
        return NULL;
    bfs_consume(s, c.length);
    if (size == 0 && run < 15) {
        b->run = run_of(s, run) - 1;
        return block + 128 + start;
    }
    at += 2 * run;
    if (at >= block + 128)
        return NULL;
    if (size)
        put(at - past, (int)((unsigned)bfs_value(s->bits, size) << b->low));
    bfs_consume(s, size);
    at += 2;
    return at == block + 128 ? at + start : at;
}

/* Sixteen coefficients, and the bits of a set for them. */
typedef int16_t lanes __attribute__((vector_size(32), may_alias));
#define PLACES {-0x8000, 0x4000, 0x2000, 0x1000, 0x800, 0x400, 0x200, 0x100, 0x80, 0x40, 0x20, 0x10, 8, 4, 2, 1}

/* nonzero returns the set of a block's coefficients that are not zero. */
static inline uint64_t nonzero_portable(const int16_t *block)
{
    uint64_t set = 0;
    for (int k = 1; k < 64; k++)
        set |= (uint64_t)(block[k] != 0) << (64 - k);
    return set;
}

static inline uint64_t highest(uint64_t m) { return UINT64_C(1) << (63 - __builtin_clzll(m)); }

/* pick returns the bit of a set that has index other bits below it. It is fast if that is 0, or if
 * few bits are above. */
static inline __attribute__((always_inline)) uint64_t pick(uint64_t set, int index)
{
    if (index == 0)
        return set & -set;
    for (int above = __builtin_popcountll(set) - 1 - index; above > 0; above--)
        set ^= highest(set);
    return highest(set);
}

/* scatter spreads the last bits of v over the bits of a set. */
static inline __attribute__((always_inline)) uint64_t scatter(uint64_t v, uint64_t set)
{
    uint64_t to = 0;
    for (; set; set &= set - 1, v >>= 1)
        to |= set & -set & -(v & 1);
    return to;
}

#define PASSES bfs_passes_portable
#define NAME(f) f##_portable
#define TARGET
#define NONZERO nonzero_portable
#define PICK pick
#define SCATTER scatter
#include "bfs_bands.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,bmi,bmi2")))

/* zeros has a bit for each of 32 coefficients that is zero, the first one highest. */
AVX2 static inline uint32_t zeros_avx2(const int16_t *from)
{
    const __m256i *v = (const __m256i *)from;
    const __m256i turn = _mm256_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i zero = _mm256_setzero_si256();
    const __m256i is = _mm256_packs_epi16(_mm256_cmpeq_epi16(v[0], zero), _mm256_cmpeq_epi16(v[1], zero));
    return (uint32_t)_mm256_movemask_epi8(_mm256_permute4x64_epi64(_mm256_shuffle_epi8(is, turn), 0x27));
}

AVX2 static inline uint64_t nonzero_avx2(const int16_t *block)
{
    return ~((uint64_t)zeros_avx2(block) << 32 | zeros_avx2(block + 32)) << 1;
}

#define PASSES bfs_passes_avx2
#define NAME(f) f##_avx2
#define TARGET AVX2
#define NONZERO nonzero_avx2
#define PICK pick
#define SCATTER scatter
#include "bfs_bands.h"

#define PASSES bfs_passes_pdep
#define NAME(f) f##_pdep
#define TARGET AVX2
#define NONZERO nonzero_avx2
#define PICK(set, index) _pdep_u64(UINT64_C(1) << (index), set)
#define SCATTER _pdep_u64
#include "bfs_bands.h"
#endif
