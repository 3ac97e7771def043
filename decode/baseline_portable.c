//go:build cgo

#include "bfs_baseline.h"

#include <string.h>

/* libjpeg's accurate integer inverse transform (Loeffler, Ligtenberg, Moschytz 1989, scaled by
 * 2^13), with 16-bit sums and saturation where its vector code has them, so that even coefficients
 * that no encoder writes give the same samples. */

const uint8_t bfs_natural[64] = {
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

static inline int clamp(int v, int low, int high) { return v < low ? low : v > high ? high : v; }

/* Sums of 32 bits wrap around. */
static inline uint32_t times2(int16_t a, int x, int16_t b, int y) { return (uint32_t)(a * x) + (uint32_t)(b * y); }

static inline int16_t shifted(uint32_t v, int shift) { return (int16_t)clamp((int32_t)v >> shift, INT16_MIN, INT16_MAX); }

/* transform makes all columns of a block, and swaps rows and columns. The loops over columns are
 * what compilers make vector code of. */
static inline __attribute__((always_inline)) void transform(int16_t to[64], const int16_t x[64], const int shift)
{
    enum {
        C0298 = 2446, C0390 = 3196, C0541 = 4433, C0765 = 6270, C0899 = 7373, C1175 = 9633,
        C1501 = 12299, C1847 = 15137, C1961 = 16069, C2053 = 16819, C2562 = 20995, C3072 = 25172
    };
    const uint32_t round = 1u << (shift - 1);
    int16_t out[64];
    for (int k = 0; k < 8; k++) {
        const int16_t x0 = x[k], x1 = x[8 + k], x2 = x[16 + k], x3 = x[24 + k], x4 = x[32 + k], x5 = x[40 + k], x6 = x[48 + k], x7 = x[56 + k];
        const uint32_t e3 = times2(x2, C0541 + C0765, x6, C0541), e2 = times2(x2, C0541, x6, C0541 - C1847);
        const uint32_t e0 = (uint32_t)(int16_t)(x0 + x4) * 8192u + round, e1 = (uint32_t)(int16_t)(x0 - x4) * 8192u + round;
        const int16_t z3 = (int16_t)(x7 + x3), z4 = (int16_t)(x5 + x1);
        const uint32_t s3 = times2(z3, C1175 - C1961, z4, C1175), s4 = times2(z3, C1175, z4, C1175 - C0390);
        const uint32_t o0 = times2(x7, -C0899, x1, C1501 - C0899) + s4, o1 = times2(x5, -C2562, x3, C3072 - C2562) + s3;
        const uint32_t o2 = times2(x5, C2053 - C2562, x3, -C2562) + s4, o3 = times2(x7, C0298 - C0899, x1, -C0899) + s3;
        out[k] = shifted(e0 + e3 + o0, shift);
        out[8 + k] = shifted(e1 + e2 + o1, shift);
        out[16 + k] = shifted(e1 - e2 + o2, shift);
        out[24 + k] = shifted(e0 - e3 + o3, shift);
        out[32 + k] = shifted(e0 - e3 - o3, shift);
        out[40 + k] = shifted(e1 - e2 - o2, shift);
        out[48 + k] = shifted(e1 + e2 - o1, shift);
        out[56 + k] = shifted(e0 + e3 - o0, shift);
    }
    for (int k = 0; k < 64; k++)
        to[k] = out[k % 8 * 8 + k / 8];
}

static int idct(const int16_t *block, int n, int group, ptrdiff_t step, const bfs_quant *q, uint8_t *to, ptrdiff_t stride)
{
    int beyond = 0;
    for (int i = 0; i < n; i++, to += 8) {
        const int16_t *from = block + i / group * step + i % group * 64;
        int16_t x[64];
        for (int k = 0; k < 64; k++)
            x[bfs_natural[k]] = from[k];
        for (int k = 0; k < 8; k++)
            beyond |= (x[k] < 0 ? -x[k] : x[k]) > q->limit[k];
        for (int k = 0; k < 64; k++)
            x[k] = (int16_t)(x[k] * q->by[k]);
        transform(x, x, 11);
        transform(x, x, 18);
        for (int y = 0; y < 8; y++)
            for (int k = 0; k < 8; k++)
                to[y * stride + k] = (uint8_t)(clamp(x[8 * y + k], -128, 127) + 128);
    }
    return !beyond;
}

static void sum(uint16_t *to, const uint8_t *near, const uint8_t *far, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (uint16_t)(3 * near[i] + far[i]);
}

enum { CHUNK = 64 };

static inline uint8_t saturated(int v) { return (uint8_t)clamp(v, 0, 255); }

/* convert makes CHUNK pixels as JFIF says, rounding like libjpeg; factors are in 1/65536. cb and
 * cr are less 128. */
static void convert(uint8_t rgb[3 * CHUNK], const uint8_t *y, const int16_t *cb, const int16_t *cr)
{
    uint8_t r[CHUNK], g[CHUNK], b[CHUNK];
    for (int x = 0; x < CHUNK; x++) {
        r[x] = saturated(y[x] + ((91881 * cr[x] + 32768) >> 16));
        g[x] = saturated(y[x] + ((-22554 * cb[x] - 46802 * cr[x] + 32768) >> 16));
        b[x] = saturated(y[x] + ((116130 * cb[x] + 32768) >> 16));
    }
    for (int x = 0; x < CHUNK; x++) {
        rgb[3 * x] = r[x];
        rgb[3 * x + 1] = g[x];
        rgb[3 * x + 2] = b[x];
    }
}

/* copy writes the pixels from skip to skip + n, as far as they are among the CHUNK from x on. */
static void copy(uint8_t *to, const uint8_t *rgb, int x, int skip, int n)
{
    const int from = skip > x ? skip - x : 0, left = skip + n - x, end = left < CHUNK ? left : CHUNK;
    memcpy(to + 3 * (x + from - skip), rgb + 3 * from, 3 * (size_t)(end - from));
}

/* widen filters sums to chroma of CHUNK pixels, less 128. */
static void widen(int16_t *to, const uint16_t *sums, int even, int odd)
{
    for (int i = 0; i < CHUNK / 2; i++) {
        to[2 * i] = (int16_t)(((3 * sums[i] + sums[i - 1] + even) >> 4) - 128);
        to[2 * i + 1] = (int16_t)(((3 * sums[i] + sums[i + 1] + odd) >> 4) - 128);
    }
}

static void wide(uint8_t *to, const uint8_t *y, const uint16_t *cb, const uint16_t *cr, int skip, int n, int even, int odd)
{
    for (int x = 0; x < skip + n; x += CHUNK) {
        int16_t blue[CHUNK], red[CHUNK];
        uint8_t rgb[3 * CHUNK];
        widen(blue, cb + x / 2, even, odd);
        widen(red, cr + x / 2, even, odd);
        convert(rgb, y + x, blue, red);
        copy(to, rgb, x, skip, n);
    }
}

static void full(uint8_t *to, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n)
{
    for (int x = 0; x < n; x += CHUNK) {
        int16_t blue[CHUNK], red[CHUNK];
        uint8_t rgb[3 * CHUNK];
        for (int i = 0; i < CHUNK; i++) {
            blue[i] = (int16_t)(cb[x + i] - 128);
            red[i] = (int16_t)(cr[x + i] - 128);
        }
        convert(rgb, y + x, blue, red);
        copy(to, rgb, x, 0, n);
    }
}

const bfs_kernel bfs_baseline_portable = {idct, sum, wide, full};
