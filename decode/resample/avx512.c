//go:build cgo

#include "bfs_resample.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "bfs_x86.h"

#define LEVEL "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni"
#define TARGET __attribute__((target(LEVEL)))
#define INLINE static inline __attribute__((always_inline, target(LEVEL)))
#define VECTOR __m512i
#define LANES 4
#define X(name) _mm512_##name
#define ZERO _mm512_setzero_si512()
#define LOAD(p) _mm512_loadu_si512(p)
#define FEWER bfs_avx2.down

enum {
    REACH = 32 - 6, /* max distance, in values, of four columns' first taps for one load to hold a tap pair of each */
    HEAD = 32       /* values before the weights: the first says whether that holds */
};

/* four lays out the data for four columns whose first taps are near each other: where each
 * byte of their pairs of taps is, relative to the first column's first tap; then their
 * weights. */
static void four(int16_t *to, const int16_t *weights, const int32_t *at, int n, int taps)
{
    uint8_t *from = (uint8_t *)to;
    for (int l = 0; l < 4; l++)
        for (int c = 0; c < 4; c++)
            for (int b = 0; b < 4; b++)
                *from++ = c == 3 || l >= n ? 0 : (uint8_t)(2 * (at[l] - at[0] + c + b / 2 * 3) + b % 2);
    to += 32;
    for (int t = 0; t < taps; t += 2)
        for (int l = 0; l < 4; l++, to += 8)
            bfs_spread(to, l < n ? bfs_pair(weights + (size_t)l * taps + t) : 0);
}

static int near(const int32_t *at, int n)
{
    for (int i = 0; i < n; i += 4)
        if (at[i + 3 < n ? i + 3 : n - 1] - at[i] > REACH)
            return 0;
    return 1;
}

static void arrange(int16_t *to, const int16_t *weights, const int32_t *at, int n, int taps, int channels)
{
    const int is = channels == 3 && near(at, n);
    to[0] = (int16_t)is;
    to += HEAD;
    if (!is) {
        bfs_avx2.arrange(to, weights, at, n, taps, channels);
        return;
    }
    for (int i = 0; i < n; i += 4, to += 32 + taps * 16)
        four(to, weights + (size_t)i * taps, at + i, n - i, taps);
}

INLINE VECTOR add(VECTOR sum, VECTOR values, VECTOR weights) { return _mm512_dpwssd_epi32(sum, values, weights); }

/* Lane l holds 8 neighbours, starting at 16*l in the first and at 16*l + 8 in the second. */
INLINE void keep(int16_t *to, VECTOR a, VECTOR b)
{
    const VECTOR first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi64(a, first, b));
    _mm512_storeu_si512(to + 32, _mm512_permutex2var_epi64(a, second, b));
}

#include "bfs_lanes.h"

/* pixels4 returns the sums of four neighbouring pixels, one per lane. */
INLINE __m512i pixels4(const int16_t *line, const int16_t *weights, const int taps, __m512i sum)
{
    const __m512i from = _mm512_load_si512(weights);
    weights += 32;
    for (int t = 0; t < taps; t += 2, line += 6, weights += 32)
        sum = _mm512_dpwssd_epi32(sum, _mm512_permutexvar_epi8(from, _mm512_loadu_si512(line)), _mm512_load_si512(weights));
    return sum;
}

/* gathered locates the bytes of 16 pixels of four bytes each; column 4*v + l is in lane l, at
 * v. */
static const uint8_t gathered[64] __attribute__((aligned(64))) = {
    0,  1,  2,  16, 17, 18, 32, 33, 34, 48, 49, 50, 4,  5,  6,  20, 21, 22, 36, 37, 38, 52, 53, 54,
    8,  9,  10, 24, 25, 26, 40, 41, 42, 56, 57, 58, 12, 13, 14, 28, 29, 30, 44, 45, 46, 60, 61, 62,
};

INLINE void pixels(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, const int taps, int shift)
{
    const __m512i half = _mm512_set1_epi32(1 << (shift - 1)), tight = _mm512_load_si512(gathered);
    const __m128i by = _mm_cvtsi32_si128(shift);
    const int each = 32 + taps * 16;
    for (int i = 0; i < n; i += 16, at += 16, to += 48, weights += 4 * each) {
        const __m512i s0 = _mm512_sra_epi32(pixels4(line + at[0], weights, taps, half), by);
        const __m512i s1 = _mm512_sra_epi32(pixels4(line + at[4], weights + each, taps, half), by);
        const __m512i s2 = _mm512_sra_epi32(pixels4(line + at[8], weights + 2 * each, taps, half), by);
        const __m512i s3 = _mm512_sra_epi32(pixels4(line + at[12], weights + 3 * each, taps, half), by);
        const __m512i v = _mm512_packus_epi16(_mm512_packs_epi32(s0, s1), _mm512_packs_epi32(s2, s3));
        _mm512_storeu_si512(to, _mm512_permutexvar_epi8(tight, v));
    }
}

static TARGET void rgb(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, int taps, int shift)
{
    if (!weights[0])
        bfs_avx2.rgb(to, line, at, weights + HEAD, n, taps, shift);
    else if (taps == 2)
        pixels(to, line, at, weights + HEAD, n, 2, shift + BFS_LINE_BITS);
    else if (taps == 4)
        pixels(to, line, at, weights + HEAD, n, 4, shift + BFS_LINE_BITS);
    else
        pixels(to, line, at, weights + HEAD, n, taps, shift + BFS_LINE_BITS);
}

static void gray(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, int taps, int shift)
{
    bfs_ssse3.gray(to, line, at, weights + HEAD, n, taps, shift);
}

const bfs_kernel bfs_avx512 = {arrange, down, rgb, gray};

#endif
