//go:build cgo

#include "bfs_baseline.h"

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

/* transform makes one column or row of 8; d is the distance between its values. */
static inline __attribute__((always_inline)) void transform(int16_t *p, const int d, const int shift)
{
    enum {
        C0298 = 2446, C0390 = 3196, C0541 = 4433, C0765 = 6270, C0899 = 7373, C1175 = 9633,
        C1501 = 12299, C1847 = 15137, C1961 = 16069, C2053 = 16819, C2562 = 20995, C3072 = 25172
    };
    const int16_t x0 = p[0], x1 = p[d], x2 = p[2 * d], x3 = p[3 * d], x4 = p[4 * d], x5 = p[5 * d], x6 = p[6 * d], x7 = p[7 * d];
    const uint32_t round = 1u << (shift - 1);
    const uint32_t e3 = times2(x2, C0541 + C0765, x6, C0541), e2 = times2(x2, C0541, x6, C0541 - C1847);
    const uint32_t e0 = (uint32_t)(int16_t)(x0 + x4) * 8192u + round, e1 = (uint32_t)(int16_t)(x0 - x4) * 8192u + round;
    const uint32_t even[4] = {e0 + e3, e1 + e2, e1 - e2, e0 - e3};

    const int16_t z3 = (int16_t)(x7 + x3), z4 = (int16_t)(x5 + x1);
    const uint32_t s3 = times2(z3, C1175 - C1961, z4, C1175), s4 = times2(z3, C1175, z4, C1175 - C0390);
    const uint32_t odd[4] = {
        times2(x7, -C0899, x1, C1501 - C0899) + s4,
        times2(x5, -C2562, x3, C3072 - C2562) + s3,
        times2(x5, C2053 - C2562, x3, -C2562) + s4,
        times2(x7, C0298 - C0899, x1, -C0899) + s3,
    };
    for (int i = 0; i < 4; i++) {
        p[i * d] = shifted(even[i] + odd[i], shift);
        p[(7 - i) * d] = shifted(even[i] - odd[i], shift);
    }
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
        for (int k = 0; k < 8; k++)
            transform(x + k, 8, 11);
        for (int k = 0; k < 8; k++)
            transform(x + 8 * k, 1, 18);
        for (int k = 0; k < 64; k++)
            to[k / 8 * stride + k % 8] = (uint8_t)(clamp(x[k], -128, 127) + 128);
    }
    return !beyond;
}

static void sum(uint16_t *to, const uint8_t *near, const uint8_t *far, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (uint16_t)(3 * near[i] + far[i]);
}

/* rgb converts one pixel as JFIF says, rounding like libjpeg: factors are in 1/65536. */
static inline void rgb(uint8_t *to, int y, int cb, int cr)
{
    cb -= 128;
    cr -= 128;
    to[0] = (uint8_t)clamp(y + ((91881 * cr + 32768) >> 16), 0, 255);
    to[1] = (uint8_t)clamp(y + ((-22554 * cb - 46802 * cr + 32768) >> 16), 0, 255);
    to[2] = (uint8_t)clamp(y + ((116130 * cb + 32768) >> 16), 0, 255);
}

static void wide(uint8_t *to, const uint8_t *y, const uint16_t *cb, const uint16_t *cr, int skip, int n, int even, int odd)
{
    for (int x = skip; x < skip + n; x++, to += 3) {
        const int i = x / 2, beside = x % 2 ? i + 1 : i - 1, round = x % 2 ? odd : even;
        rgb(to, y[x], (3 * cb[i] + cb[beside] + round) >> 4, (3 * cr[i] + cr[beside] + round) >> 4);
    }
}

static void full(uint8_t *to, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n)
{
    for (int x = 0; x < n; x++)
        rgb(to + 3 * x, y[x], cb[x], cr[x]);
}

const bfs_kernel bfs_baseline_portable = {idct, sum, wide, full};
