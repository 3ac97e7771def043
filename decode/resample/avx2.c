//go:build cgo

#include "bfs_resample.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "bfs_x86.h"

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))
#define VECTOR __m256i
#define LANES 2
#define X(name) _mm256_##name
#define ZERO _mm256_setzero_si256()
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define IN_LANES(v) _mm256_broadcastsi128_si256(v)
#define FEWER bfs_ssse3.down

INLINE VECTOR add(VECTOR sum, VECTOR values, VECTOR weights) { return _mm256_add_epi32(sum, _mm256_madd_epi16(values, weights)); }

/* Each lane holds 16 neighbours; the second 8 belong after the other lane's first 8. */
INLINE void keep(int16_t *to, VECTOR first, VECTOR second)
{
    _mm256_storeu_si256((__m256i *)to, _mm256_permute2x128_si256(first, second, 0x20));
    _mm256_storeu_si256((__m256i *)to + 1, _mm256_permute2x128_si256(first, second, 0x31));
}

INLINE VECTOR gather(const int16_t *line, const int32_t *at)
{
    const __m128i first = _mm_loadu_si128((const __m128i *)(line + at[0])), second = _mm_loadu_si128((const __m128i *)(line + at[4]));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
}

INLINE void put(uint8_t *to, VECTOR v)
{
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(v));
    _mm_storeu_si128((__m128i *)(to + 12), _mm256_extracti128_si256(v, 1));
}

#include "bfs_lanes.h"

static void gray(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, int taps, int shift)
{
    bfs_ssse3.gray(to, line, at, weights, n, taps, shift);
}

const bfs_kernel bfs_avx2 = {arrange, down, rgb, gray};

#endif
