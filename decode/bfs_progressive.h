//go:build cgo

/* The decoder of progressive JPEGs. It shares everything but the entropy decoder with that of
 * baseline ones, and the same rule: it accepts only images that libjpeg-turbo decodes without a
 * warning. All scans of an image are decoded, whatever region is wanted; only then are its
 * coefficients complete.
 *
 *   progressive.c        scans in order, DC coefficients, and the memory of all coefficients
 *   progressive_bands.c  scans of AC coefficients (the body is bfs_bands.h) */
#ifndef BFS_PROGRESSIVE_H
#define BFS_PROGRESSIVE_H

#include "bfs_baseline.h"

/* A symbol and what its value takes, from one look-up. */
typedef struct {
    uint8_t length; /* bits of its code and value; 0: longer than a look-up */
    uint8_t code;   /* bits of its code */
    uint8_t size;   /* bits of its value */
    uint8_t run;    /* coefficients up to and with the value */
    uint8_t end;    /* 127 if it ends the block, else 0 */
} bfs_symbol;

enum {
    BFS_SYMBOL_BITS = 9, /* looked up; tables are used once, so making them must not take long */
    BFS_NO_RUN = 200,    /* as run: leaves any block, so that the slow path decodes the symbol */
};

typedef struct {
    bfs_symbol symbol[1 << BFS_SYMBOL_BITS];
    bfs_codes codes;
} bfs_symbols;

int bfs_symbols_make(bfs_symbols *s, const uint8_t *definition, int most);

/* A scan of AC coefficients. */
typedef struct {
    bfs_symbols symbols;
    int first, last; /* coefficients, in zigzag order */
    int low;         /* bits that later scans refine */
    int run;         /* the next so many blocks have no codes */
} bfs_band;

/* A bfs_band_pass decodes a band of n blocks, at most BFS_SLICE, or returns 0 at the first anomaly.
 * Blocks are aligned to their 128 bytes. s->from must be readable for BFS_WORST bytes per block and
 * 8 more. Before a first pass, the band's coefficients must be zero. */
typedef int bfs_band_pass(bfs_stream *s, bfs_band *b, int16_t *blocks, int n);

typedef struct bfs_passes {
    bfs_band_pass *first, *refine;
} bfs_passes;

extern const bfs_passes bfs_passes_portable, bfs_passes_avx2, bfs_passes_pdep;

struct bfs_tiers;
int bfs_progressive_decode(bfs_picture *p, bfs_kept *k, const bfs_passes *passes, const uint8_t *end,
                           struct bfs_tiers *tiers);

#endif
