//go:build cgo

#include "bfs_resample.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "bfs_x86.h"

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

static TARGET void arrange(int16_t *to, const int16_t *weights, const int32_t *at, int n, int taps, int channels)
{
    (void)at;
    bfs_arrange(to, weights, n, taps, channels, channels == 3 ? 2 : 1);
}

/* down32 is ssse3.c's down16 for 32 values. */
INLINE void down32(int16_t *to, const uint8_t *from, ptrdiff_t stride, const int16_t *weights, const int taps, const int lone, __m256i half, __m128i shift)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i s0 = half, s1 = half, s2 = half, s3 = half;
    for (int t = 0; t < taps; t += 2, from += 2 * stride) {
        const __m256i w = _mm256_set1_epi32(bfs_pair(weights + t));
        const __m256i a = _mm256_loadu_si256((const __m256i *)from);
        const __m256i b = lone && t + 2 == taps ? zero : _mm256_loadu_si256((const __m256i *)(from + stride));
        const __m256i lo = _mm256_unpacklo_epi8(a, b), hi = _mm256_unpackhi_epi8(a, b);
        s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(_mm256_unpacklo_epi8(lo, zero), w));
        s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(_mm256_unpackhi_epi8(lo, zero), w));
        s2 = _mm256_add_epi32(s2, _mm256_madd_epi16(_mm256_unpacklo_epi8(hi, zero), w));
        s3 = _mm256_add_epi32(s3, _mm256_madd_epi16(_mm256_unpackhi_epi8(hi, zero), w));
    }
    /* Each lane holds 16 neighbours; the second 8 belong after the other lane's first 8. */
    s0 = _mm256_packs_epi32(_mm256_sra_epi32(s0, shift), _mm256_sra_epi32(s1, shift));
    s2 = _mm256_packs_epi32(_mm256_sra_epi32(s2, shift), _mm256_sra_epi32(s3, shift));
    _mm256_storeu_si256((__m256i *)to, _mm256_permute2x128_si256(s0, s2, 0x20));
    _mm256_storeu_si256((__m256i *)to + 1, _mm256_permute2x128_si256(s0, s2, 0x31));
}

INLINE void rows(int16_t *to, const uint8_t *from, ptrdiff_t stride, int n, const int16_t *weights, const int taps, const int lone, int shift)
{
    const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
    const __m128i by = _mm_cvtsi32_si128(shift);
    for (int i = 0; i < n; i += 32) {
        if (i > n - 32)
            i = n - 32; /* the last ones overlap values already written */
        down32(to + i, from + i, stride, weights, taps, lone, half, by);
    }
}

static TARGET void down(int16_t *to, const uint8_t *from, ptrdiff_t stride, int n, const int16_t *weights, int taps, int lone, int shift)
{
    if (n < 32)
        bfs_ssse3.down(to, from, stride, n, weights, taps, lone, shift);
    else if (lone)
        rows(to, from, stride, n, weights, taps, 1, shift - BFS_LINE_BITS);
    else if (taps == 2)
        rows(to, from, stride, n, weights, 2, 0, shift - BFS_LINE_BITS);
    else if (taps == 4)
        rows(to, from, stride, n, weights, 4, 0, shift - BFS_LINE_BITS);
    else
        rows(to, from, stride, n, weights, taps, 0, shift - BFS_LINE_BITS);
}

/* pixels2 is ssse3.c's pixel for two pixels, one per lane. */
INLINE __m256i pixels2(const int16_t *a, const int16_t *b, const int16_t *weights, const int taps, __m256i sum)
{
    const __m256i pairs = _mm256_broadcastsi128_si256(BFS_PAIRS);
    for (int t = 0; t < taps; t += 2, a += 6, b += 6, weights += 16) {
        const __m256i v = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a)), _mm_loadu_si128((const __m128i *)b), 1);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(v, pairs), _mm256_load_si256((const __m256i *)weights)));
    }
    return sum;
}

INLINE void pixels(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, const int taps, int shift)
{
    const __m256i half = _mm256_set1_epi32(1 << (shift - 1)), tight = _mm256_broadcastsi128_si256(BFS_TIGHT);
    const __m128i by = _mm_cvtsi32_si128(shift);
    const int each = taps * 8;
    for (int i = 0; i < n; i += 8, at += 8, to += 24, weights += 4 * each) {
        const __m256i s0 = _mm256_sra_epi32(pixels2(line + at[0], line + at[4], weights, taps, half), by);
        const __m256i s1 = _mm256_sra_epi32(pixels2(line + at[1], line + at[5], weights + each, taps, half), by);
        const __m256i s2 = _mm256_sra_epi32(pixels2(line + at[2], line + at[6], weights + 2 * each, taps, half), by);
        const __m256i s3 = _mm256_sra_epi32(pixels2(line + at[3], line + at[7], weights + 3 * each, taps, half), by);
        const __m256i v = _mm256_shuffle_epi8(_mm256_packus_epi16(_mm256_packs_epi32(s0, s1), _mm256_packs_epi32(s2, s3)), tight);
        _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(v));
        _mm_storeu_si128((__m128i *)(to + 12), _mm256_extracti128_si256(v, 1));
    }
}

static TARGET void rgb(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, int taps, int shift)
{
    shift += BFS_LINE_BITS;
    if (taps == 2)
        pixels(to, line, at, weights, n, 2, shift);
    else if (taps == 4)
        pixels(to, line, at, weights, n, 4, shift);
    else if (taps == 6)
        pixels(to, line, at, weights, n, 6, shift);
    else
        pixels(to, line, at, weights, n, taps, shift);
}

static void gray(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, int taps, int shift)
{
    bfs_ssse3.gray(to, line, at, weights, n, taps, shift);
}

const bfs_kernel bfs_avx2 = {arrange, down, rgb, gray};

#endif
