//go:build cgo

#ifndef BFS_JPEG_H
#define BFS_JPEG_H

#include "bfs_decode.h"

int bfs_jpeg_decode(bfs_kept *k, const uint8_t *data, size_t size, uint8_t *to, bfs_view view);

int bfs_jpeg_ends(const uint8_t *p, size_t n);

#endif
