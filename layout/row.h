//go:build cgo

/* Rows of 8-bit pixels into slots of a tensor, in C. Go sets up the context and owns it; everything
 * else here only reads it. Nothing is allocated, and no pointer is kept after the call except the
 * slot, which Go sets and clears. */
#ifndef BFS_ROW_H
#define BFS_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of the kernels of package kernel, from None on, and of the dtypes in spec.go. */
enum { BFS_GO, BFS_PORTABLE, BFS_SSSE3, BFS_AVX2 };
enum { BFS_UINT8, BFS_FLOAT16, BFS_BFLOAT16, BFS_FLOAT32 };

/* Pixels are processed in groups of this size. */
enum { BFS_GROUP = 16 };

/* Per-channel values are repeated so that a vector of eight can be loaded from any of them:
 * entry i is for channel i % channels. */
enum { BFS_LANES = 3 * 8 };

/* How elements are computed: never, or with a formula that has been checked against the
 * tables for every value. NEARLY is accurate enough for most elements that are rounded to 16
 * bits. */
enum { BFS_NEVER, BFS_EXACTLY, BFS_NEARLY };

/* How bytes of three vectors form three others: entry 3*i+j selects the bytes that go from
 * source vector j to destination vector i, 0x80 none. */
typedef struct {
    uint8_t at[9][16];
} bfs_masks;

typedef struct {
    /* From the sample. */
    uint8_t *slot;         /* NULL between samples */
    size_t pitch;          /* from row to row */
    size_t plane;          /* from one channel of a pixel to the next */
    size_t step;           /* from one pixel of a row to the next */
    int32_t height, width; /* of the pixels */
    bool planar, flip;

    /* From the converter. */
    int32_t kernel, dtype, size, channels;
    int32_t formula;
    float mean[BFS_LANES], scale[BFS_LANES], scale_low[BFS_LANES], offset[BFS_LANES];
    float offset_exactly[BFS_LANES], offset_nearly[BFS_LANES]; /* candidates for offset */
    uint8_t table[3][256][4]; /* elements as stored in memory */

    /* For the kernels; the second of each pair mirrors. */
    bfs_masks split[2]; /* bytes of pixels into planes */
    uint32_t lanes_of_planes[2][3][8], lanes_of_pixels[2][3][8]; /* see row_floats.c */
} bfs_rows;

int bfs_fastest(void);

void bfs_rows_ready(bfs_rows *r);
void bfs_rows_put(const bfs_rows *r, int y, int n, const uint8_t *rows, size_t stride);
void bfs_rows_deliver(void *ctx, int y, const uint8_t *row);
void bfs_rows_end(bfs_rows *r);

/* If n is not a multiple of the group size, the last group overlaps the one before and writes the
 * same elements again. n is at least one group. */
static inline size_t bfs_next_group(size_t x, size_t n, size_t group)
{
    x += group;
    return x < n && x > n - group ? n - group : x;
}

/* Prepare the tables that the two kernels below need, once per context. */
void bfs_plan_split(bfs_masks *m, int size, int flip);
void bfs_plan_lanes(bfs_rows *r);

/* One for each kernel; to is where the row's first pixel goes. They return how many pixels,
 * from the first, they have written: the tables do the rest. */
size_t bfs_bytes_ssse3(const bfs_rows *r, uint8_t *to, const uint8_t *row);
size_t bfs_floats_avx2(const bfs_rows *r, uint8_t *to, const uint8_t *row);

/* Convert elements of 1, 2 or 4 bytes between pixels of three and three planes: all n pixels
 * if n is at least 16/size, else none. They return the number converted. */
size_t bfs_split3(uint8_t *planes, const uint8_t *pixels, size_t n, int size);
size_t bfs_join3(uint8_t *pixels, const uint8_t *planes, size_t n, int size);

#endif
