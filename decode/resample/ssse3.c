//go:build cgo

#include "bfs_resample.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "bfs_x86.h"

#define TARGET __attribute__((target("ssse3")))
#define INLINE static inline __attribute__((always_inline, target("ssse3")))
#define VECTOR __m128i
#define LANES 1
#define X(name) _mm_##name
#define ZERO _mm_setzero_si128()
#define LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define IN_LANES(v) (v)
#define FEWER bfs_down

INLINE VECTOR add(VECTOR sum, VECTOR values, VECTOR weights) { return _mm_add_epi32(sum, _mm_madd_epi16(values, weights)); }

INLINE void keep(int16_t *to, VECTOR first, VECTOR second)
{
    _mm_storeu_si128((__m128i *)to, first);
    _mm_storeu_si128((__m128i *)to + 1, second);
}

INLINE VECTOR gather(const int16_t *line, const int32_t *at) { return LOAD(line + at[0]); }

INLINE void put(uint8_t *to, VECTOR v) { _mm_storeu_si128((__m128i *)to, v); }

#include "bfs_lanes.h"

/* two returns the sums of two pixels of one channel, in two parts each; one instruction
 * handles four taps of each. */
INLINE __m128i two(const int16_t *line, const int32_t *at, const int16_t *weights, int taps)
{
    const int16_t *a = line + at[0], *b = line + at[1];
    __m128i sum = _mm_setzero_si128();
    for (int t = 0; t < taps; t += 4, weights += 8) {
        const __m128i v = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(a + t)), _mm_loadl_epi64((const __m128i *)(b + t)));
        sum = _mm_add_epi32(sum, _mm_madd_epi16(v, _mm_load_si128((const __m128i *)weights)));
    }
    return sum;
}

static TARGET void gray(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, int taps, int shift)
{
    shift += BFS_LINE_BITS;
    const __m128i half = _mm_set1_epi32(1 << (shift - 1)), by = _mm_cvtsi32_si128(shift);
    const int each = (taps + 3) / 4 * 8;
    for (int i = 0; i < n; i += 8, at += 8, to += 8, weights += 4 * each) {
        const __m128i s0 = two(line, at, weights, taps), s1 = two(line, at + 2, weights + each, taps);
        const __m128i s2 = two(line, at + 4, weights + 2 * each, taps), s3 = two(line, at + 6, weights + 3 * each, taps);
        const __m128i lo = _mm_sra_epi32(_mm_add_epi32(_mm_hadd_epi32(s0, s1), half), by);
        const __m128i hi = _mm_sra_epi32(_mm_add_epi32(_mm_hadd_epi32(s2, s3), half), by);
        const __m128i v = _mm_packs_epi32(lo, hi);
        _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(v, v));
    }
}

const bfs_kernel bfs_ssse3 = {arrange, down, rgb, gray};

#endif
