//go:build cgo

/* Resizing one image: shared by the driver and its kernels. All arithmetic is on integers and
 * does not depend on order, so that every kernel produces the same bytes. */
#ifndef BFS_RESAMPLE_H
#define BFS_RESAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* What to do; the fields are those of Go's job, which documents them. */
typedef struct {
    int32_t height, width, channels;
    int32_t rows, columns;
    int32_t taps_y, taps_x;
    int32_t shift_y, shift_x;
    ptrdiff_t stride;
    size_t at_y, weights_y, at_x, weights_x, arranged, line, out;
} bfs_job;

/* What a kernel provides: one level of the processor's instructions. taps are even. */
typedef struct {
    /* Lays out the horizontal weights of n outputs for rgb and gray. */
    void (*arrange)(int16_t *to, const int16_t *weights, const int32_t *at, int n, int taps, int channels);
    /* Makes n values of a line: the sum of taps rows times their weights, rounded to 1/128.
     * lone: the last row does not exist, and its weight is 0. */
    void (*down)(int16_t *to, const uint8_t *from, ptrdiff_t stride, int n,
                 const int16_t *weights, int taps, int lone, int shift);
    /* Make n pixels from a line. at: where in it the taps of each begin. May read a little
     * past the taps, and write a little past the pixels: see over in job.go. */
    void (*rgb)(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, int taps, int shift);
    void (*gray)(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, int taps, int shift);
} bfs_kernel;

enum { BFS_PORTABLE, BFS_SSSE3, BFS_AVX2, BFS_AVX512, BFS_KERNELS };

/* A line holds pixels times 2^LINE_BITS. */
enum { BFS_LINE_BITS = 7 };

extern const bfs_kernel bfs_portable, bfs_ssse3, bfs_avx2, bfs_avx512;

void bfs_down(int16_t *to, const uint8_t *from, ptrdiff_t stride, int n,
              const int16_t *weights, int taps, int lone, int shift);

int bfs_fastest_kernel(void);
void bfs_resize(bfs_job job, int kernel, const uint8_t *from, uint8_t *scratch, int first, int end, void *put, void *ctx);

#endif
