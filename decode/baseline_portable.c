//go:build cgo

#include "bfs_baseline.h"

#include <string.h>

/* transform transforms all columns of a block, and swaps rows and columns. Compilers vectorize the
 * loops over columns. */
BFS_INLINE void transform(int16_t to[64], const int16_t x[64], const int shift)
{
    int16_t out[64];
    for (int k = 0; k < 8; k++)
        bfs_idct(out + k, x + k, 8, shift);
    for (int k = 0; k < 64; k++)
        to[k] = out[k % 8 * 8 + k / 8];
}

/* load dequantizes block i, and brings it to natural order. It returns 0 at a coefficient beyond its limit. */
static int load(int16_t x[64], const int16_t *block, int i, int group, ptrdiff_t step, const bfs_quant *q)
{
    const int16_t *from = block + i / group * step + i % group * 64;
    int beyond = 0;
    for (int k = 0; k < 64; k++)
        x[bfs_natural[k]] = from[k];
    for (int k = 0; k < 8; k++)
        beyond |= (x[k] < 0 ? -x[k] : x[k]) > q->limit[k];
    for (int k = 0; k < 64; k++)
        x[k] = (int16_t)(x[k] * q->by[k]);
    return !beyond;
}

static uint8_t sample(int v) { return (uint8_t)(bfs_clamp(v, -128, 127) + 128); }

static int idct8(const int16_t *block, int n, int group, ptrdiff_t step, const bfs_quant *q, uint8_t *to, ptrdiff_t stride)
{
    int certain = 1;
    for (int i = 0; i < n; i++, to += 8) {
        int16_t x[64];
        certain &= load(x, block, i, group, step, q);
        transform(x, x, 11);
        transform(x, x, 18);
        for (int y = 0; y < 8; y++)
            for (int k = 0; k < 8; k++)
                to[y * stride + k] = sample(x[8 * y + k]);
    }
    return certain;
}

/* four makes 4 values from 8 without the fifth; both are step apart. */
static void four(int16_t *to, const int16_t *x, int step, int shift)
{
    const int16_t x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x5 = x[5 * step], x6 = x[6 * step], x7 = x[7 * step];
    const uint32_t e = (uint32_t)x[0] * 16384u + (1u << (shift - 1)), even = bfs_times2(x2, BFS_R1847, x6, -BFS_R0765);
    const uint32_t outer = bfs_times2(x1, BFS_R2562, x3, BFS_R0899) + bfs_times2(x5, -BFS_R0601, x7, -BFS_R0509);
    const uint32_t inner = bfs_times2(x1, BFS_R1061, x3, -BFS_R2172) + bfs_times2(x5, BFS_R1451, x7, -BFS_R0211);
    to[0] = bfs_shifted(e + even + outer, shift);
    to[step] = bfs_shifted(e - even + inner, shift);
    to[2 * step] = bfs_shifted(e - even - inner, shift);
    to[3 * step] = bfs_shifted(e + even - outer, shift);
}

static int idct4(const int16_t *block, int n, int group, ptrdiff_t step, const bfs_quant *q, uint8_t *to, ptrdiff_t stride)
{
    int certain = 1;
    for (int i = 0; i < n; i++, to += 4) {
        int16_t x[64], out[64];
        certain &= load(x, block, i, group, step, q);
        for (int k = 0; k < 8; k++)
            four(out + k, x + k, 8, 12);
        for (int y = 0; y < 4; y++) {
            four(x, out + 8 * y, 1, 19);
            for (int k = 0; k < 4; k++)
                to[y * stride + k] = sample(x[k]);
        }
    }
    return certain;
}

static uint32_t odd2(const int16_t *x, int step)
{
    return bfs_times2(x[step], BFS_R3624, x[3 * step], -BFS_R1272) + bfs_times2(x[5 * step], BFS_R0850, x[7 * step], -BFS_R0720);
}

/* The first column has 32 bits between the passes, as in libjpeg-turbo's vector code. */
static int idct2(const int16_t *block, int n, int group, ptrdiff_t step, const bfs_quant *q, uint8_t *to, ptrdiff_t stride)
{
    for (int i = 0; i < n; i++, to += 2) {
        int16_t x[64], out[2][8];
        uint32_t first[2];
        load(x, block, i, group, step, q);
        for (int k = 0; k < 8; k++) {
            const uint32_t e = (uint32_t)x[k] * 32768u + 4096u, odd = odd2(x + k, 8);
            out[0][k] = bfs_shifted(e + odd, 13);
            out[1][k] = bfs_shifted(e - odd, 13);
            if (k == 0) {
                first[0] = (uint32_t)((int32_t)(e + odd) >> 13);
                first[1] = (uint32_t)((int32_t)(e - odd) >> 13);
            }
        }
        for (int y = 0; y < 2; y++) {
            const uint32_t e = first[y] * 32768u + (1u << 19), odd = odd2(out[y], 1);
            to[y * stride] = sample((int32_t)(e + odd) >> 20);
            to[y * stride + 1] = sample((int32_t)(e - odd) >> 20);
        }
    }
    return 1;
}

/* bfs_idct_dc makes a sample of each block. libjpeg finds it in a table of 1024. */
int bfs_idct_dc(const int16_t *block, int n, int group, ptrdiff_t step, const bfs_quant *q, uint8_t *to, ptrdiff_t stride)
{
    (void)stride;
    for (int i = 0; i < n; i += group, block += step)
        for (int k = 0; k < group; k++) {
            const int v = (block[64 * k] * q->by[0] + 4) >> 3;
            to[i + k] = sample((int)((unsigned)(v + 512) & 1023) - 512);
        }
    return 1;
}

static void sum(uint16_t *to, const uint8_t *near, const uint8_t *far, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (uint16_t)(3 * near[i] + far[i]);
}

enum { CHUNK = 64 };

/* convert makes CHUNK pixels. */
static void convert(uint8_t rgb[3 * CHUNK], const uint8_t *y, const int16_t *cb, const int16_t *cr)
{
    uint8_t r[CHUNK], g[CHUNK], b[CHUNK];
    for (int x = 0; x < CHUNK; x++) {
        r[x] = bfs_red(y[x], cr[x]);
        g[x] = bfs_green(y[x], cb[x], cr[x]);
        b[x] = bfs_blue(y[x], cb[x]);
    }
    for (int x = 0; x < CHUNK; x++) {
        rgb[3 * x] = r[x];
        rgb[3 * x + 1] = g[x];
        rgb[3 * x + 2] = b[x];
    }
}

/* copy writes the pixels from skip to skip + n that are among the CHUNK pixels from x on. */
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

const bfs_kernel bfs_baseline_portable = {{bfs_idct_dc, idct2, idct4, idct8}, sum, wide, full};
