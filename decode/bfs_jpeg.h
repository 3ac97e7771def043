//go:build cgo

#ifndef BFS_JPEG_H
#define BFS_JPEG_H

#include "bfs_decode.h"

typedef struct bfs_jpeg bfs_jpeg;

bfs_jpeg *bfs_jpeg_new(bfs_handle *h);
int bfs_jpeg_decode(bfs_jpeg *j, bfs_handle *h, const uint8_t *data, size_t size, uint8_t *to, bfs_view view);
void bfs_jpeg_free(bfs_jpeg *j);
const char *bfs_jpeg_version(void);

#endif
