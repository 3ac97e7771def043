//go:build cgo

#ifndef BFS_PNG_H
#define BFS_PNG_H

#include "bfs_decode.h"

int bfs_png_decode(bfs_handle *h, const uint8_t *data, size_t size, uint8_t *to, bfs_view view);
const char *bfs_png_version(void);

#endif
