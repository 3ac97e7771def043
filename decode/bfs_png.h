//go:build cgo

#ifndef BFS_PNG_H
#define BFS_PNG_H

#include "bfs_decode.h"

/* How to decode; the result is the same. BFS_PNG_FAST takes the fast path for files that it
 * supports and that have no fault, and libpng for the rest; PORTABLE does the same without
 * vector instructions; LIBRARY uses libpng for everything. */
enum { BFS_PNG_FAST, BFS_PNG_PORTABLE, BFS_PNG_LIBRARY };

/* libpng decodes images above this size, row by row. */
enum { BFS_FAST_SCRATCH = 64 << 20 };

/* Data in several IDATs may exceed its inflated size by this much; beyond that libpng
 * decodes. */
enum { BFS_JOIN_SLACK = 64 << 10 };

int bfs_png_decode(bfs_kept *k, const uint8_t *data, size_t size, uint8_t *to, bfs_view view, int stored, int how);
int bfs_png_fast(bfs_kept *k, const uint8_t *data, size_t size, uint8_t *to, const bfs_view *v, int stored, int portable);
const char *bfs_png_version(void);

/* PNG's filters, as in the first byte of a row. */
enum { BFS_NONE, BFS_SUB, BFS_UP, BFS_AVERAGE, BFS_PAETH, BFS_FILTERS };

/* bfs_unfilter undoes the filter of a row of n bytes, in pixels of 1 to 4 bytes. to may equal
 * from. above is the previous row, unfiltered, or zeros. */
void bfs_unfilter(int filter, uint8_t *to, const uint8_t *from, const uint8_t *above, size_t n, int step, int portable);

#endif
