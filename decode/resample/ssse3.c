//go:build cgo

#include "bfs_resample.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include "bfs_x86.h"

#define TARGET __attribute__((target("ssse3")))
#define INLINE static inline __attribute__((always_inline, target("ssse3")))

static TARGET void arrange(int16_t *to, const int16_t *weights, const int32_t *at, int n, int taps, int channels)
{
    (void)at;
    bfs_arrange(to, weights, n, taps, channels, 1);
}

/* down16 makes 16 values. The bytes of two rows are interleaved, so that one instruction
 * multiplies both by their weights and adds. */
INLINE void down16(int16_t *to, const uint8_t *from, ptrdiff_t stride, const int16_t *weights, const int taps, int lone, __m128i half, __m128i shift)
{
    const __m128i zero = _mm_setzero_si128();
    __m128i s0 = half, s1 = half, s2 = half, s3 = half;
    for (int t = 0; t < taps; t += 2, from += 2 * stride) {
        const __m128i w = _mm_set1_epi32(bfs_pair(weights + t));
        const __m128i a = _mm_loadu_si128((const __m128i *)from);
        const __m128i b = lone && t + 2 == taps ? zero : _mm_loadu_si128((const __m128i *)(from + stride));
        const __m128i lo = _mm_unpacklo_epi8(a, b), hi = _mm_unpackhi_epi8(a, b);
        s0 = _mm_add_epi32(s0, _mm_madd_epi16(_mm_unpacklo_epi8(lo, zero), w));
        s1 = _mm_add_epi32(s1, _mm_madd_epi16(_mm_unpackhi_epi8(lo, zero), w));
        s2 = _mm_add_epi32(s2, _mm_madd_epi16(_mm_unpacklo_epi8(hi, zero), w));
        s3 = _mm_add_epi32(s3, _mm_madd_epi16(_mm_unpackhi_epi8(hi, zero), w));
    }
    s0 = _mm_packs_epi32(_mm_sra_epi32(s0, shift), _mm_sra_epi32(s1, shift));
    s2 = _mm_packs_epi32(_mm_sra_epi32(s2, shift), _mm_sra_epi32(s3, shift));
    _mm_storeu_si128((__m128i *)to, s0);
    _mm_storeu_si128((__m128i *)to + 1, s2);
}

INLINE void rows(int16_t *to, const uint8_t *from, ptrdiff_t stride, int n, const int16_t *weights, const int taps, int lone, int shift)
{
    const __m128i half = _mm_set1_epi32(1 << (shift - 1)), by = _mm_cvtsi32_si128(shift);
    for (int i = 0; i < n; i += 16) {
        if (i > n - 16)
            i = n - 16; /* the last ones overlap values already written */
        down16(to + i, from + i, stride, weights, taps, lone, half, by);
    }
}

static TARGET void down(int16_t *to, const uint8_t *from, ptrdiff_t stride, int n, const int16_t *weights, int taps, int lone, int shift)
{
    if (n < 16)
        bfs_down(to, from, stride, n, weights, taps, lone, shift);
    else if (taps == 2 && !lone)
        rows(to, from, stride, n, weights, 2, 0, shift - BFS_LINE_BITS);
    else if (taps == 4 && !lone)
        rows(to, from, stride, n, weights, 4, 0, shift - BFS_LINE_BITS);
    else
        rows(to, from, stride, n, weights, taps, lone, shift - BFS_LINE_BITS);
}

/* pixel returns one pixel's sums, red, green and blue. Each step pairs up the channels of two
 * pixels of the line, so that one instruction handles both. */
INLINE __m128i pixel(const int16_t *from, const int16_t *weights, const int taps, __m128i sum)
{
    const __m128i pairs = BFS_PAIRS;
    for (int t = 0; t < taps; t += 2, from += 6, weights += 8) {
        const __m128i v = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)from), pairs);
        sum = _mm_add_epi32(sum, _mm_madd_epi16(v, _mm_load_si128((const __m128i *)weights)));
    }
    return sum;
}

INLINE void pixels(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, const int taps, int shift)
{
    const __m128i half = _mm_set1_epi32(1 << (shift - 1)), by = _mm_cvtsi32_si128(shift);
    const int each = taps * 4;
    for (int i = 0; i < n; i += 4, at += 4, to += 12, weights += 4 * each) {
        const __m128i s0 = _mm_sra_epi32(pixel(line + at[0], weights, taps, half), by);
        const __m128i s1 = _mm_sra_epi32(pixel(line + at[1], weights + each, taps, half), by);
        const __m128i s2 = _mm_sra_epi32(pixel(line + at[2], weights + 2 * each, taps, half), by);
        const __m128i s3 = _mm_sra_epi32(pixel(line + at[3], weights + 3 * each, taps, half), by);
        const __m128i v = _mm_packus_epi16(_mm_packs_epi32(s0, s1), _mm_packs_epi32(s2, s3));
        _mm_storeu_si128((__m128i *)to, _mm_shuffle_epi8(v, BFS_TIGHT));
    }
}

static TARGET void rgb(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, int taps, int shift)
{
    shift += BFS_LINE_BITS;
    if (taps == 2)
        pixels(to, line, at, weights, n, 2, shift);
    else if (taps == 4)
        pixels(to, line, at, weights, n, 4, shift);
    else
        pixels(to, line, at, weights, n, taps, shift);
}

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
