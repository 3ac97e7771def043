//go:build cgo

#ifndef BFS_JPEG_H
#define BFS_JPEG_H

#include "bfs_decode.h"

int bfs_jpeg_decode(bfs_handle *h, const uint8_t *data, size_t size, uint8_t *to, bfs_view view);
const char *bfs_jpeg_version(void);

#endif
