//go:build cgo

/* Shared by the C shims. Each shim decodes one image per call, or two: it retains no pointer that
 * it is given, never writes outside the given rows, and returns a code, with a message in bfs_kept.
 */
#ifndef BFS_DECODE_H
#define BFS_DECODE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Result codes; errors.go documents them. */
enum { BFS_OK, BFS_FORMAT, BFS_CORRUPT, BFS_MEMORY, BFS_MISMATCH, BFS_PART };

/* The outcome for entry points; the same as EntryResult. */
enum { BFS_ENTRIES_UNUSED, BFS_ENTRIES_USED, BFS_ENTRIES_MADE, BFS_ENTRIES_NONE, BFS_ENTRIES_WRONG };

enum { BFS_TABLES = 6 }; /* Huffman tables that a baseline JPEG can use; most use four */

/* State kept between images: memory that only grows until it is freed, libdeflate's state, Huffman
 * tables, and the code and message of the last error. Initially all zeros. */
typedef struct {
    uint8_t *at;
    size_t size;
    struct bfs_table *tables[BFS_TABLES]; /* may be shared; most recently used first */
    int64_t jpegs[5];                     /* number decoded here, and left to libjpeg, by reason */
    int entries;                          /* outcome for the last JPEG's entry points */
    int made_count, made_room;
    uint64_t *made;                       /* entry points that were made, if any */
    struct libdeflate_decompressor *inflater;
    size_t packed;     /* bytes of the last JPEG's packed body; 0: it was not packed */
    int code;
    char error[256];
} bfs_kept;

/* What to decode, and where its pixels go: pixel (x, y) of the region is at to + x*dx + y*dy,
 * where to is the address of its first pixel. */
typedef struct {
    int32_t width, height; /* of the stored image, which is checked against them */
    int32_t x, y, w, h;    /* the region, in pixels of the image at this scale */
    int32_t scale;         /* 1/scale */
    int32_t channels;      /* 1 or 3 */
    ptrdiff_t dx, dy;
} bfs_view;

/* Rows handled together where they cannot be decoded in place: enough that turning them fills
 * cache lines, few enough to stay in cache. */
enum { BFS_STRIP = 16 };

int bfs_fail(bfs_kept *k, int code, const char *text);
uint8_t *bfs_grow(bfs_kept *k, size_t size);
void bfs_free(bfs_kept *k);
void bfs_tables_free(struct bfs_table *held[BFS_TABLES]);

/* bfs_load64 reads 8 bytes, the lowest first. */
static inline __attribute__((always_inline)) uint64_t bfs_load64(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

static inline __attribute__((always_inline)) void bfs_store64(uint8_t *p, uint64_t x)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    memcpy(p, &x, 8);
}

/* bfs_luma is the luma of a pixel by BT.601. */
static inline uint8_t bfs_luma(uint8_t r, uint8_t g, uint8_t b)
{
    return (uint8_t)((19595u * r + 38470u * g + 7471u * b + 32768u) >> 16);
}

int bfs_jpeg_decode(bfs_kept *k, const uint8_t *data, size_t size, uint8_t *to, bfs_view view);
int bfs_jpeg_ends(const uint8_t *p, size_t n);
int bfs_webp_decode(bfs_kept *k, const uint8_t *data, size_t size, size_t needs, uint8_t *to, bfs_view view);
int bfs_webp_version(void);

void bfs_place(uint8_t *to, ptrdiff_t dx, ptrdiff_t dy, int channels,
               const uint8_t *from, size_t stride, int w, int h);
void bfs_gray(uint8_t *to, const uint8_t *rgb, size_t n);
void bfs_swap(uint8_t *to, const uint8_t *from, size_t n);
void bfs_colours(uint8_t *to, const uint8_t *from, size_t n, const uint32_t table[256]);
void bfs_cmyk(uint8_t *to, const uint8_t *cmyk, size_t n, int inverted);

#endif
