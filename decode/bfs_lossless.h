//go:build cgo

/* Packed images of the lossless kind; lossless.go has the format. */
#ifndef BFS_LOSSLESS_H
#define BFS_LOSSLESS_H

#include "bfs_decode.h"

enum { BFS_GRAY = 1, BFS_GRAY_ALPHA, BFS_RGB, BFS_RGBA, BFS_INDEX };
enum { BFS_LEFT, BFS_ABOVE, BFS_GRADIENT };

/* What to decode of a band, and where its pixels go, as in bfs_view. */
typedef struct {
    int32_t width;    /* of the image */
    int32_t pixels;   /* what a pixel consists of */
    int32_t wide;     /* samples have 16 bits */
    int32_t skip;     /* rows */
    int32_t rows;     /* after those, at most BFS_STRIP */
    int32_t x, w;     /* pixels of each row */
    int32_t channels; /* 1 or 3 */
    int32_t avx2;
    ptrdiff_t dx, dy;
} bfs_band;

int bfs_lossless_band(bfs_kept *k, const uint8_t *from, size_t size, const uint8_t *palette, uint8_t *to, bfs_band b);
size_t bfs_lossless_pack(uint8_t *to, const uint8_t *pix, int width, int planes, uint8_t *row, const uint8_t *above, uint8_t *work, int avx2);

#endif
