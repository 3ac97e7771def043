//go:build cgo

#ifndef BFS_WEBP_H
#define BFS_WEBP_H

#include "bfs_decode.h"

int bfs_webp_decode(bfs_kept *k, const uint8_t *data, size_t size, size_t needs, uint8_t *to, bfs_view view);
int bfs_webp_version(void);

#endif
