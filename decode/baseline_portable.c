//go:build cgo

#include "bfs_baseline.h"

#include <string.h>

/* transform makes all columns of a block, and swaps rows and columns. The loops over columns are
 * what compilers make vector code of. */
BFS_INLINE void transform(int16_t to[64], const int16_t x[64], const int shift)
{
    int16_t out[64];
    for (int k = 0; k < 8; k++)
        bfs_idct(out + k, x + k, 8, shift);
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
                to[y * stride + k] = (uint8_t)(bfs_clamp(x[8 * y + k], -128, 127) + 128);
    }
    return !beyond;
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
