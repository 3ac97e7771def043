//go:build cgo

#include "bfs_resample.h"

#include <string.h>

static void arrange(int16_t *to, const int16_t *weights, const int32_t *at, int n, int taps, int channels)
{
    (void)at, (void)channels;
    memcpy(to, weights, (size_t)n * taps * sizeof *to);
}

static inline __attribute__((always_inline)) void
few(int16_t *to, const uint8_t *from, ptrdiff_t stride, int n, const int16_t *weights, const int taps, int shift)
{
    for (int i = 0; i < n; i++) {
        int32_t sum = 1 << (shift - 1);
        for (int t = 0; t < taps; t++)
            sum += weights[t] * from[i + t * stride];
        to[i] = (int16_t)(sum >> shift);
    }
}

enum { BLOCK = 64 };

/* many sums a block of values over all of its rows, in loops that compilers vectorise. */
static void many(int16_t *to, const uint8_t *from, ptrdiff_t stride, int n, const int16_t *weights, int taps, int shift)
{
    int32_t sums[BLOCK];
    for (; n > 0; n -= BLOCK, to += BLOCK, from += BLOCK) {
        const int m = n < BLOCK ? n : BLOCK;
        for (int i = 0; i < BLOCK; i++)
            sums[i] = 1 << (shift - 1);
        for (int t = 0; t < taps; t++)
            for (int i = 0; i < m; i++)
                sums[i] += weights[t] * from[i + t * stride];
        for (int i = 0; i < m; i++)
            to[i] = (int16_t)(sums[i] >> shift);
    }
}

/* bfs_down is the portable kernel's down, which others use when there is too little for a
 * vector. */
void bfs_down(int16_t *to, const uint8_t *from, ptrdiff_t stride, int n,
              const int16_t *weights, int taps, int lone, int shift)
{
    shift -= BFS_LINE_BITS;
    if (lone)
        many(to, from, stride, n, weights, taps - 1, shift);
    else if (taps == 2)
        few(to, from, stride, n, weights, 2, shift);
    else if (taps == 4)
        few(to, from, stride, n, weights, 4, shift);
    else
        many(to, from, stride, n, weights, taps, shift);
}

static inline __attribute__((always_inline)) void
across(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, const int taps, int shift, const int channels)
{
    shift += BFS_LINE_BITS;
    for (int i = 0; i < n; i++, weights += taps, to += channels) {
        for (int c = 0; c < channels; c++) {
            const int16_t *from = line + at[i] + c;
            int32_t sum = 1 << (shift - 1);
            for (int t = 0; t < taps; t++)
                sum += weights[t] * from[t * channels];
            to[c] = (uint8_t)(sum >> shift);
        }
    }
}

static void rgb(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, int taps, int shift)
{
    if (taps == 2)
        across(to, line, at, weights, n, 2, shift, 3);
    else if (taps == 4)
        across(to, line, at, weights, n, 4, shift, 3);
    else if (taps == 6)
        across(to, line, at, weights, n, 6, shift, 3);
    else
        across(to, line, at, weights, n, taps, shift, 3);
}

static void gray(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, int taps, int shift)
{
    across(to, line, at, weights, n, taps, shift, 1);
}

const bfs_kernel bfs_portable = {arrange, bfs_down, rgb, gray};
