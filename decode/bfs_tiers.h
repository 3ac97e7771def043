//go:build cgo

/* Packed JPEGs: their quantized coefficients, entropy-decoded, in a code that vector instructions
 * read. The body of such a file is, little-endian:
 *
 *    0  components: 1 or 3
 *    1  1 if they are RGB
 *    2  quantization tables: 1 to 3
 *    3  for each of three components: sampling factors (h << 4 | v) and the number of its table
 *    9  zeros
 *   16  the tables, 64 values of 16 bits each, in zigzag order
 *       for each chunk: the bytes of its streams M, P, Q, N, V and W, 16 bits each, and its CRC-32C
 *       the chunks
 *
 * Blocks come in the order of a sequential scan. A chunk is BFS_TIERS_MCUS MCUs of a row, or what is
 * left of it, and needs no other chunk. It is a byte H for each block, and then its streams:
 *
 *   H  the place of the last coefficient that is not 0 in zigzag order, 0 if there is none but DC (6
 *      bits), and the class of the DC difference (2 bits)
 *   M  the difference from the component's previous DC coefficient, or from 0 for the first one, in
 *      2, 4, 7 or 12 bits by class; -2048 in 12 bits is followed by the coefficient itself in 16
 *      bits; then a bit for each AC coefficient before the last: is it not 0?
 *   P  for the AC coefficients that are not 0: a bit for each, is its magnitude more than 1? and
 *      then a bit for each, is it negative?
 *   Q  a bit for each magnitude of more than 1: is it more than 2?
 *   N  4 bits for each magnitude of more than 2: the magnitude less 3, at most 15
 *   V  a byte for each 15 in N: the magnitude less 18; more than 109 if W has the coefficient
 *   W  16 bits for each of these coefficients
 *
 * Bits are read from the lowest of a byte upwards. It takes one addition to find where the next
 * block begins in a stream, so processors work on several blocks at the same time. */
#ifndef BFS_TIERS_H
#define BFS_TIERS_H

#include "bfs_baseline.h"

enum { BFS_TIERS_MCUS = 16, BFS_TIERS_HEADER = 16 };

enum {
    BFS_TIERS_M,
    BFS_TIERS_P,
    BFS_TIERS_Q,
    BFS_TIERS_N,
    BFS_TIERS_V,
    BFS_TIERS_W,
    BFS_TIERS_STREAMS
};

enum {
    BFS_TIERS_BLOCKS = 10 * BFS_TIERS_MCUS, /* of a chunk, at most */
    BFS_TIERS_SLACK = 128 /* bytes that a stream can be read, or written, past its end */
};

/* bfs_tiers_worst is the largest size of a stream for a number of blocks. */
static inline size_t bfs_tiers_worst(int stream, int blocks)
{
    static const uint16_t bits[BFS_TIERS_STREAMS] = {
        12 + 16 + 62, 2 * 63, 63, 4 * 63, 8 * 63, 16 * 63,
    };
    return ((size_t)blocks * bits[stream] + 7) / 8;
}

/* More bytes than a chunk can have, with slack. Packing a chunk needs that much room. */
enum { BFS_TIERS_MOST = BFS_TIERS_BLOCKS * 264 };

/* The bits of a DC difference, by class. */
static const uint8_t bfs_tiers_dc[4] = {2, 4, 7, 12};

enum { BFS_TIERS_BEYOND = -2048 }; /* the difference in place of one that does not fit */

/* The order of blocks in a chunk: the component of each, and how many there are in an MCU. */
typedef struct {
    uint8_t component[10];
    int count;
} bfs_tiers_mcu;

/* A bfs_tiers_unpacker makes the coefficients of n blocks, aligned to their 128 bytes. from[i]
 * points to stream i, which must be readable for the worst case of n blocks and BFS_TIERS_SLACK
 * bytes more; it is advanced to the end of the used part. It returns 0 if a DC coefficient is too
 * large. */
typedef int bfs_tiers_unpacker(int16_t *to, const uint8_t *h,
                               const uint8_t *from[BFS_TIERS_STREAMS], const bfs_tiers_mcu *mcu,
                               int n);

/* A bfs_tiers_packer is the inverse. There must be as much room at to[i], and limit has the limits
 * for the first 32 coefficients of each component. It returns 0 if one of those is larger. */
typedef int bfs_tiers_packer(uint8_t *to[BFS_TIERS_STREAMS], uint8_t *h,
                             const int16_t *const *blocks, const bfs_tiers_mcu *mcu, int n,
                             const uint16_t limit[3][32]);

bfs_tiers_unpacker bfs_tiers_unpack_portable, bfs_tiers_unpack_avx2, bfs_tiers_unpack_avx512;
bfs_tiers_packer bfs_tiers_pack_portable, bfs_tiers_pack_avx2, bfs_tiers_pack_avx512;

typedef struct {
    bfs_tiers_unpacker *unpack;
    bfs_tiers_packer *pack;
} bfs_tiers_kernel;

bfs_tiers_kernel bfs_tiers_by(int kernel);

/* A body that is being made, row by row, in the caller's memory. After a failure, nothing more is
 * packed. */
typedef struct bfs_tiers {
    const bfs_frame *frame;
    bfs_tiers_packer *pack;
    bfs_tiers_mcu mcu;
    uint16_t limit[3][32];
    uint8_t *body;
    size_t size, room, table;
    int packing;
} bfs_tiers;

void bfs_tiers_start(bfs_tiers *t, const bfs_frame *f, int kernel, uint8_t *to, size_t room);
void bfs_tiers_row(bfs_tiers *t, const bfs_blocks blocks[3]);
int bfs_tiers_pack(bfs_kept *k, int kernel, bfs_task task);

size_t bfs_tiers_memory(int width);
int bfs_tiers_decode(bfs_kept *k, int kernel, const uint8_t *body, size_t size, uint8_t *to,
                     bfs_view view);

#endif
