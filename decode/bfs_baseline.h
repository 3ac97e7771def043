//go:build cgo

/* The decoder of baseline JPEGs, several times as fast as libjpeg-turbo, with its pixels to the
 * last bit. It reads what most JPEGs are: 8-bit, Huffman-coded, sequential, one scan, gray or three
 * components; progressive ones are left to bfs_progressive.h. Anything else, and any image with an
 * anomaly, is left to libjpeg-turbo, whose pixels and verdict count. So this decoder may accept
 * only what libjpeg-turbo decodes without a warning, and need not say what is wrong with the rest.
 *
 *   baseline_header.c   markers, up to a scan
 *   baseline_tables.c   Huffman tables for the state machine
 *   baseline_shared.c   how decoders share those tables
 *   baseline_entropy.c  entropy-coded bits to coefficients (the body is bfs_entropy.h)
 *   baseline_window.c   entropy-coded bytes without stuffing
 *   baseline_scan.c     MCUs in order, or from entry points: restart markers, DC sums
 *   baseline_portable.c, _avx2.c, _avx512.c   coefficients to pixels; all give the same
 *   baseline_kernels.c  what runs on which processor
 *   baseline_picture.c  rows of MCUs to the pixels that are wanted
 *   baseline_pack.c     images for decoders of many threads: bfs_packed.h
 *   baseline.c          one image or two: what is decoded, in which order, in which memory
 */
#ifndef BFS_BASELINE_H
#define BFS_BASELINE_H

#include "bfs_decode.h"
#include "bfs_packed.h"

#include <string.h>

/* Further result codes: why an image is left to libjpeg-turbo. */
enum {
    BFS_LEFT_KIND = 16,       /* arithmetic coding, several sequential scans, four components */
    BFS_LEFT_SAMPLING,        /* chroma sampled in a rare way */
    BFS_LEFT_HEADER,          /* an unusual or damaged header */
    BFS_LEFT_DATA,            /* an anomaly in the entropy-coded data, or in the order of scans */
};

/* Implementations. */
enum { BFS_PORTABLE, BFS_AVX2, BFS_AVX512 };

/* The content of the markers. */
typedef struct {
    int width, height;
    int components;    /* 1 or 3 */
    int hmax, vmax;    /* the largest sampling factors, which are those of component 0 */
    int blocks;        /* in an MCU */
    int across, down;  /* in MCUs */
    int interval;      /* MCUs between restart markers; 0: none */
    int rgb;           /* the components are RGB, not YCbCr */
    int progressive;
    bfs_component c[3];
    uint16_t quant[4][64];      /* in zigzag order */
    int quants;                 /* those that are defined, one bit each */
    const uint8_t *code[2][4];  /* of DC and AC: 16 counts, then the symbols; in the file */

    const uint8_t *scan;        /* the next scan's entropy-coded data; NULL: there is none */
    int count, of[3];           /* its components, in order */
    int first, last, high, low; /* if progressive: its coefficients, and bits before and after it */
} bfs_frame;

int bfs_frame_sampling(bfs_frame *f);
int bfs_frame_read(bfs_frame *f, const uint8_t *data, size_t size);
int bfs_frame_next(bfs_frame *f, const uint8_t *at, const uint8_t *end);

int bfs_codes_make(bfs_codes *c, const uint8_t *definition, int lookup, bfs_code *known);
int bfs_codes_are_sizes(const uint8_t *definition);

/* The effect of looking up the next bits. Values are in bytes of the block, two per coefficient. A
 * step decodes one symbol, or two: the value of the first is then known from the looked-up bits,
 * and so is the length of the second, so that the next step does not wait for its value. */
typedef struct {
    uint8_t length;  /* bits consumed */
    uint8_t advance; /* bytes by which the position advances, unless the block ends */
    uint8_t before;  /* bits before the last value */
    uint8_t shift;   /* 63 less the bits of the last value */
    uint8_t first;   /* where the first value goes */
    uint8_t last;    /* where the last value goes */
    uint8_t end;     /* 127 if the block ends, else 0 */
    int8_t value;    /* the first value */
} bfs_step;

enum {
    BFS_LOOKUP = 11, /* bits looked up */
    BFS_NO_STEP = 200 /* as advance: leaves any block, so that the slow path decodes one symbol */
};

typedef struct bfs_table {
    bfs_step step[1 << BFS_LOOKUP];
    bfs_codes codes;
    uint8_t code[16 + 256]; /* its definition: counts and symbols */
    int ac;
    int holders;             /* these three belong to baseline_shared.c */
    struct bfs_table **list, *next;
} bfs_table;

int bfs_table_make(bfs_table *t);
int bfs_tables_find(bfs_table *held[BFS_TABLES], const uint8_t *code, int ac);

/* A block in the order of decoding: its AC table, and the DC table of the block after it. */
typedef struct {
    const bfs_table *ac, *dc;
} bfs_phase;

/* The entropy decoder's state between calls. Blocks are contiguous and aligned to 128 bytes; at
 * is within the block that phase describes. */
typedef struct {
    const uint8_t *from;    /* next byte to read */
    uint64_t bits;          /* bits read, left-aligned */
    uint64_t count;         /* their number, modulo 64 */
    uint8_t *at;            /* next coefficient */
    const bfs_phase *phase;
    const bfs_phase *end;   /* where to stop */
    const bfs_table *table; /* for the next step */
} bfs_stream;

/* bfs_load reads 8 bytes, the highest first. */
static inline __attribute__((always_inline)) uint64_t bfs_load(const uint8_t *p)
{
    return __builtin_bswap64(bfs_load64(p));
}

/* bfs_refill tops up to at least 56 bits. */
static inline __attribute__((always_inline)) void bfs_refill(bfs_stream *s)
{
    s->count &= 63;
    s->bits |= bfs_load(s->from) >> s->count;
    s->from += (s->count ^ 63) >> 3;
    s->count |= 56;
}

static inline __attribute__((always_inline)) void bfs_consume(bfs_stream *s, int n)
{
    s->bits <<= n;
    s->count -= n;
}

/* bfs_value returns the next n bits, extended to a coefficient; it does not consume them. */
static inline __attribute__((always_inline)) int bfs_value(uint64_t bits, int n)
{
    const int v = (int)(bits >> 1 >> (63 - n));
    return n == 0 || v >> (n - 1) ? v : v - (1 << n) + 1;
}

/* A bfs_entropy decodes blocks until s->phase is s->end, or returns 0 at the first anomaly. Before
 * the call, all of these blocks must be zero. s->from must be readable for BFS_WORST bytes per
 * block and 8 more. A bfs_entropies decodes two streams until one is at its end. */
typedef int bfs_entropy(bfs_stream *s);
typedef int bfs_entropies(bfs_stream *a, bfs_stream *b);

enum { BFS_WORST = 256 }; /* a block has up to 64 codes of 16 bits with values of 15 */

bfs_entropy bfs_entropy_portable, bfs_entropy_bmi2;
bfs_entropies bfs_entropies_portable, bfs_entropies_bmi2;

/* The bytes of a file between two places. */
typedef struct {
    size_t from, to;
} bfs_part;

/* Entry points of an image: places at regular distances where decoding can start. entry.go
 * describes them. */
typedef struct {
    int every;             /* the distance in MCUs; 0: none are used or made; negative: a row */
    int count;
    const uint64_t *given; /* NULL: make them */
    uint64_t *made;
    int failed;            /* those made are not all valid */
    bfs_part part;         /* part of the file that is there, besides the header; to is 0: all */
} bfs_entries;

enum { BFS_MOST_ENTRIES = 1 << 13 }; /* images with more have none; enough for each row of the largest image */

enum {
    BFS_SLICE = 48,                              /* blocks decoded per call, at most */
    BFS_LEAD = 8,                                /* bytes before the unread ones that may be read again */
    BFS_WINDOW = 3 * BFS_SLICE * BFS_WORST + 72, /* bytes for unstuffed data */
};

/* The scan of an image, whose MCUs are read in order, or from given entry points. bfs_scan_start
 * needs the members up to entries; the rest must be zeros. */
typedef struct {
    const bfs_frame *frame;
    int blocks;                     /* in an MCU */
    const struct bfs_implementation *by;
    const bfs_table *first;         /* of the first block of an MCU */
    const bfs_phase *phase;         /* BFS_SLICE + 1 from the first block of an MCU on */
    const uint8_t *file, *file_end;
    bfs_entries entries;

    const uint8_t *raw, *raw_end;   /* compressed data not yet in the window */
    uint8_t *window, *end;          /* the window and the end of its data */
    int ended;                      /* the window has the data up to the next marker, or the file's end */
    int mcu;                        /* the next one */
    int left, restarts;             /* MCUs until the next restart marker; markers so far */
    int32_t predicted[3];
    bfs_stream stream;
    int16_t *to;                    /* where the next MCUs go */
    int wanted, slice;              /* how many, and how many of them are now being decoded */

    int entry, until;               /* the next entry point, and MCUs until there */
    uint64_t entry_position;        /* in bits, of the one before */
    const uint8_t *known, *known_raw; /* a byte in the window, and where it is in the file */
} bfs_scan;

/* bfs_next_byte is the byte in the window that holds the next bit. */
static inline uint8_t *bfs_next_byte(const bfs_scan *s) { return (uint8_t *)s->stream.from - ((s->stream.count & 63) + 7) / 8; }

/* bfs_unread is how many bits are left in the window; less than 0 if too many were read. */
static inline ptrdiff_t bfs_unread(const bfs_scan *s) { return (s->end - s->stream.from) * 8 + (ptrdiff_t)(s->stream.count & 63); }

void bfs_window_start(bfs_scan *s);
void bfs_window_fill(bfs_scan *s);
void bfs_window_track(bfs_scan *s);
void bfs_window_destuff(bfs_scan *s, size_t n);

bfs_part bfs_entries_need(const bfs_entries *e, bfs_part scan, int first, int end);
void bfs_scan_start(bfs_scan *s);
int bfs_scan_begin(bfs_scan *s);
int bfs_scan_passed(bfs_scan *s);
int bfs_scan_at_marker(bfs_scan *s);
void bfs_scan_want(bfs_scan *s, int16_t *to, int n);
int bfs_scan_go(bfs_scan *s);
int bfs_scan_go_together(bfs_scan *a, bfs_scan *b);
int bfs_scan_seek(bfs_scan *s, int mcu, int end, int16_t *to, int room);
int bfs_scan_arrive(bfs_scan *s);
int bfs_scan_end(bfs_scan *s);

/* From coefficients to pixels. Rows of samples are read up to BFS_PAD bytes past their end. */
enum { BFS_PAD = 128 };

/* A bfs_idct_row transforms n blocks of a row of blocks, with coefficients in zigzag order, to
 * adjacent squares of samples, and writes up to 24 samples more in each row. group blocks are
 * contiguous; the next group begins step coefficients after the previous one. It returns 0 if a
 * coefficient was beyond its limit. */
typedef int bfs_idct_row(const int16_t *block, int n, int group, ptrdiff_t step, const bfs_quant *q,
                         uint8_t *to, ptrdiff_t stride);

typedef struct {
    bfs_idct_row *idct[4]; /* to 1, 2, 4 and 8 samples a side: index by their logarithm */
    /* sum makes 3*near + far of n samples. */
    void (*sum)(uint16_t *to, const uint8_t *near, const uint8_t *far, int n);
    /* wide makes n RGB pixels from YCbCr, starting at pixel skip (0 or 1). cb and cr are sums, one
     * for two pixels; it also uses the sums on either side. even and odd are added before the
     * division by 16. */
    void (*wide)(uint8_t *to, const uint8_t *y, const uint16_t *cb, const uint16_t *cr, int skip, int n, int even, int odd);
    /* full makes n RGB pixels from n values each of Y, Cb and Cr. */
    void (*full)(uint8_t *to, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n);
} bfs_kernel;

extern const bfs_kernel bfs_baseline_portable, bfs_baseline_avx2, bfs_baseline_avx512;

bfs_idct_row bfs_idct_dc; /* to 1 sample, in every kernel */
bfs_idct_row bfs_idct2_avx2, bfs_idct4_avx2; /* for AVX-512, too */

/* Factors of libjpeg's transforms to fewer samples, times 2^13. They are those of its accurate
 * transform; coefficients without influence, like the fifth one on 4 samples, have none. */
enum {
    BFS_R0211 = 1730, BFS_R0509 = 4176, BFS_R0601 = 4926, BFS_R0720 = 5906, BFS_R0765 = 6270, BFS_R0850 = 6967, BFS_R0899 = 7373,
    BFS_R1061 = 8697, BFS_R1272 = 10426, BFS_R1451 = 11893, BFS_R1847 = 15137, BFS_R2172 = 17799, BFS_R2562 = 20995, BFS_R3624 = 29692
};

typedef struct bfs_implementation {
    const bfs_kernel *pixels;
    bfs_entropy *entropy;
    bfs_entropies *together;
    const struct bfs_passes *passes; /* bfs_progressive.h */
} bfs_implementation;

const bfs_implementation *bfs_baseline_by(int kernel);

/* A component at the view's scale. */
typedef struct {
    int log, side;     /* of the square of samples that a block makes */
    int width, height; /* in samples */
} bfs_scaled;

/* An image whose rows of MCUs are made one after the other. The members up to kernel must be set
 * first. */
typedef struct {
    bfs_frame f;
    bfs_view view;
    uint8_t *to;
    const bfs_kernel *kernel;

    bfs_scaled c[3];
    int height;           /* of the image at the view's scale */
    int across, down;     /* pixels for a sample of chroma */
    int filters;          /* chroma with fewer samples is interpolated; otherwise, samples are repeated */
    bfs_quant quant[3];
    int first_row, last_row, first_mcu, last_mcu; /* MCUs needed */
    int row;              /* of MCUs */
    uint8_t *plane[3];    /* samples of the row; before them, the last row of those above */
    ptrdiff_t stride[3];
    uint8_t *filtered[2]; /* a row of chroma, or of sums */
    uint8_t *strip;       /* rows that cannot be decoded in place, if any */
} bfs_picture;

/* A component's blocks in a row of MCUs, from the first needed one on, in the form that idct takes,
 * and the distance in coefficients from one row of blocks to the next. */
typedef struct {
    const int16_t *at;
    int group;
    ptrdiff_t step, down;
} bfs_blocks;

int bfs_picture_plan(bfs_picture *p);
void bfs_picture_quantize(bfs_picture *p, int component);
size_t bfs_picture_most(size_t columns);
size_t bfs_picture_bytes(const bfs_picture *p);
uint8_t *bfs_picture_lay_out(bfs_picture *p, uint8_t *at);
int bfs_picture_show(bfs_picture *p, int row, const bfs_blocks blocks[3]);

int bfs_pack_size(bfs_packed_size *size, const uint8_t *data, size_t n, bfs_view view, int bits);
int bfs_pack(uint8_t *to, bfs_packed_size announced, const uint8_t *data, size_t n, bfs_view view, int bits);

/* A file, what to decode of it, and where to. */
typedef struct {
    const uint8_t *data;
    size_t size;
    uint8_t *to; /* NULL: nowhere */
    bfs_view view;
    bfs_entries entries;
    uint8_t *pack; /* where the whole image is packed, in room bytes; NULL: nowhere */
    size_t room;
} bfs_task;

int bfs_baseline_runs(int kernel);
size_t bfs_baseline_most(int width);
bfs_part bfs_baseline_need(const uint8_t *head, size_t shown, size_t size, bfs_view view, bfs_entries entries);
int bfs_baseline_decode(bfs_kept *k, int kernel, bfs_task task);
int bfs_baseline_decode_pair(bfs_kept *ka, bfs_kept *kb, int kernel, bfs_task ta, bfs_task tb);

#endif
