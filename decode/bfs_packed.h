//go:build cgo

/* A baseline JPEG for decoders with many threads: self-contained, without pointers, and without
 * stuffing and markers in its data. Its entropy-coded data is cut into stretches of equally many
 * bits, which are decoded at the same time. */
#ifndef BFS_PACKED_H
#define BFS_PACKED_H

#include "bfs_shared.h"

enum { BFS_PACKED_BITS = 9 }; /* of a code that are looked up */

typedef struct {
    bfs_code known[1 << BFS_PACKED_BITS];
    bfs_codes codes;
} bfs_decoding;

/* The data between two restart markers. At least 8 zeros follow it. */
typedef struct {
    uint32_t at, bits; /* its first byte, a multiple of 8, and how much there is */
    uint32_t stretch;  /* its first stretch */
} bfs_segment;

typedef struct {
    int32_t components, blocks, across; /* of MCUs, as in bfs_frame */
    int32_t mcus;                       /* to decode: up to the last needed row */
    int32_t interval;                   /* MCUs of a segment; the last one may have fewer */
    int32_t segments, stretches, bits;  /* bits of a stretch; a segment's last one may have fewer */
    int32_t complete;                   /* the last segment has no more MCUs than are decoded */
    int32_t first_row, last_row, first_mcu, last_mcu; /* MCUs whose samples are needed */
    int32_t x, y, w, h, channels;       /* the pixels that are wanted */
    int32_t hmax, vmax, rgb;
    bfs_component c[3];
    bfs_quant quant[3];
    uint8_t table[2][10];               /* of DC and AC, for each block of an MCU */

    /* From the beginning of this struct: */
    uint32_t tables;       /* bfs_decoding */
    uint32_t segment;      /* bfs_segment */
    uint32_t segment_of;   /* a uint32_t for each stretch */
    uint32_t data;

    /* In the decoder's memory: */
    uint64_t state, from;  /* a uint64_t for each stretch */
    uint64_t count;        /* a uint32_t for each stretch */
    uint64_t coefficients; /* blocks of 64 in natural order, in the order of the scan */
    uint64_t plane[3];     /* samples of the needed MCUs */
    uint64_t pixels;       /* w*channels bytes a row */
} bfs_packed;

/* The memory for a bfs_packed and its parts, and for a decoder. */
typedef struct {
    uint64_t packed, work;
    uint64_t pixels; /* where they are in work */
    uint64_t blocks; /* of a component whose samples are needed, at most */
} bfs_packed_size;

#endif
