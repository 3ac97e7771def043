//go:build cgo

#ifndef BFS_PNG_H
#define BFS_PNG_H

#include "bfs_decode.h"

/* How to decode. What comes out is the same. BFS_PNG_FAST takes the fast path where
 * a file is of its kinds and without fault, and libpng for the rest; PORTABLE
 * does so without vector instructions; LIBRARY has libpng do everything. */
enum { BFS_PNG_FAST, BFS_PNG_PORTABLE, BFS_PNG_LIBRARY };

/* Above this size images are not inflated at once, but by libpng, row after row. */
enum { BFS_FAST_SCRATCH = 64 << 20 };

/* By how much data in several IDATs may exceed what it inflates to, lest libpng gets it. */
enum { BFS_JOIN_SLACK = 64 << 10 };

/* What is kept from image to image beside a handle. Starts as zeros. */
typedef struct {
    struct libdeflate_decompressor *inflater;
    int64_t fast; /* images that took the fast path */
} bfs_png;

int bfs_png_decode(bfs_png *p, bfs_handle *h, const uint8_t *data, size_t size, uint8_t *to, bfs_view view, int how);
int bfs_png_fast(bfs_png *p, bfs_handle *h, const uint8_t *data, size_t size, uint8_t *to, const bfs_view *v, int portable);
void bfs_png_fast_free(bfs_png *p);
const char *bfs_png_version(void);

/* PNG's filters, as the first byte of a row names them. */
enum { BFS_NONE, BFS_SUB, BFS_UP, BFS_AVERAGE, BFS_PAETH, BFS_FILTERS };

/* bfs_unfilter undoes a row of n bytes, in pixels of 1 to 4 bytes. to may be where
 * from is. above is the row before, unfiltered, or zeros. */
void bfs_unfilter(int filter, uint8_t *to, const uint8_t *from, const uint8_t *above, size_t n, int step, int portable);

#endif
