/* The input of the kernels. The parameter of each is the address of a bfs_batch, at the beginning
 * of the staging buffer; all other places are offsets, so that the host can write them before it
 * knows any address. batch.go has the same structs. */
#ifndef BFS_BATCH_H
#define BFS_BATCH_H

#include "../../../decode/bfs_packed.h"
#include "simt.h"

/* One sample. dy, dx and dc lead from a value to that of the pixel below it, of the one to its right, and
 * of the next channel, in the upright image: interleaved pixels, planes and all orientations are the same. */
typedef struct {
    uint64_t pix; /* the first upright pixel with a weight, in staging; in work if decoded */
    int64_t dy, dx, dc;
    uint64_t slot;                 /* in slots */
    uint64_t at_y, weights_y;      /* a resample.Filter: for every row, its first source row and weights */
    uint64_t at_x, weights_x;      /* for every column */
    int32_t height, width;         /* of the result */
    int32_t rows, columns;         /* that have a weight */
    int32_t taps_y, taps_x, shift_y, shift_x;
    int32_t decoded, flip, copies; /* copies: the pixels are the source's, and there are no weights */
    int32_t unused;
} bfs_sample;

/* A JPEG to be decoded: a bfs_packed in staging, and its memory in work. */
typedef struct {
    uint64_t packed, work;
} bfs_encoded;

typedef struct {
    uint8_t *staging, *work, *slots;
    uint64_t samples, encoded; /* in staging */
    uint64_t elements;         /* in staging: 256 of each channel */
    uint64_t verdicts;         /* in work: a uint32_t for each JPEG, not 0 if it is left to the processor */
    int32_t count, jpegs;      /* samples, and those of them that are JPEGs to be decoded */
    int32_t slot_height, slot_width, channels, size, planar;
    int32_t tile; /* columns that a block of bfs_place makes */
    int32_t fill, unused;
} bfs_batch;

#endif
