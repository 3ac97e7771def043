//go:build cgo

/* Shared by the x86 kernels. */
#ifndef BFS_X86_H
#define BFS_X86_H

#include <stdint.h>
#include <string.h>

/* bfs_pair returns two neighbouring weights. */
static inline int32_t bfs_pair(const int16_t *weights)
{
    int32_t pair;
    memcpy(&pair, weights, sizeof pair);
    return pair;
}

/* bfs_spread repeats a pair for each channel. */
static inline void bfs_spread(int16_t *to, int32_t pair)
{
    const int32_t four[4] = {pair, pair, pair, pair};
    memcpy(to, four, sizeof four);
}

/* bfs_arrange lays weights out for vectors of 1, 2 or 4 lanes of 16 bytes, in groups of four
 * vectors: column 4*l + v of a group is in lane l of vector v, so that packing the four to
 * bytes leaves four neighbours in each lane. A lane holds each pair of taps four times, once
 * per channel. For one channel, a lane has four taps of two columns, and its group is not
 * interleaved. */
void bfs_arrange(int16_t *to, const int16_t *weights, int n, int taps, int channels, int lanes);

#endif
