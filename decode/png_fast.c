//go:build cgo && !libraries

#include "bfs_png.h"

#include <string.h>

#include <libdeflate.h>

/* The fast path: libdeflate inflates the whole image at once, several times as fast as zlib,
 * and the rows are unfiltered from there into the destination.
 *
 * It takes images that are not interlaced, with 8 bits per sample (or any number, if pixels are
 * wanted as they are stored), whose chunks are complete, in order and undamaged. Everything else is
 * left to libpng, which reads the file from its start. So one place decides what is wrong with a
 * file, and what is forgiven. This code only has to make sure that it accepts nothing that libpng
 * refuses. (zlib is stricter than libdeflate: it refuses codes that no symbol has, or runs of code
 * lengths past their last. The image inflated from such data must still match its checksum.) */

typedef struct {
    const uint8_t *data;
    size_t size;
    const bfs_view *view;
    uint8_t *to;
    int stored; /* keep pixels as stored; the view's channels are the bytes per pixel */
    int portable;

    int kind;  /* IHDR's colour type */
    int depth; /* bits per sample: 8, or any if pixels are wanted as they are stored */
    int step;  /* bytes per stored pixel; 1 where several are in a byte */
    const uint8_t *palette;
    int colors;

    int idats, full;         /* number of IDATs, and of those that are not empty */
    size_t first_idat;       /* its offset in the file */
    const uint8_t *deflated; /* data of the first one that is not empty; of all once joined */
    size_t deflated_size;    /* of all */

    size_t stride; /* of an inflated row: filter byte, then pixels */
    size_t rows;   /* bytes of all */
    uint8_t *inflated;
    uint8_t *zeros; /* the row above the first one */
    uint8_t *strip; /* converted rows, not yet placed */
    uint32_t table[256]; /* of the palette, as bfs_colours takes it, or gray */
} image;

enum { GRAY = 0, COLOR = 2, PALETTE = 3, GRAY_ALPHA = 4, COLOR_ALPHA = 6 };

/* A chunk: n bytes at data, after its name. */
typedef struct {
    uint32_t n, name;
    const uint8_t *data;
} chunk;

enum { SIGNATURE = 8, HEAD = 8, OVERHEAD = 12 };

enum { IHDR = 0x49484452, PLTE = 0x504c5445, IDAT = 0x49444154, IEND = 0x49454e44, ANCILLARY = 0x20000000 };

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* is_name reports whether a chunk's name is four letters, the third one a capital, as in all names
 * that PNG has defined so far. */
static int is_name(const uint8_t *p)
{
    for (int i = 0; i < 4; i++)
        if ((uint8_t)((p[i] | 0x20) - 'a') >= 26)
            return 0;
    return !(p[2] & 0x20);
}

/* next_chunk reads the chunk at *at and moves to the next. It returns 0 at the end, or at a
 * damaged chunk that matters. */
static int next_chunk(const image *m, size_t *at, chunk *c)
{
    const size_t left = m->size - *at;
    const uint8_t *p = m->data + *at;
    if (left < OVERHEAD)
        return 0;
    c->n = big_endian(p);
    c->name = big_endian(p + 4);
    c->data = p + HEAD;
    if (c->n > 0x7fffffff || c->n > left - OVERHEAD)
        return 0;
    *at += OVERHEAD + (size_t)c->n;
    if (c->name & ANCILLARY)
        return is_name(p + 4);
    return libdeflate_crc32(0, p + 4, 4 + (size_t)c->n) == big_endian(c->data + c->n);
}

static int read_ihdr(image *m, const chunk *c)
{
    static const uint8_t steps[] = {[GRAY] = 1, [COLOR] = 3, [PALETTE] = 1, [GRAY_ALPHA] = 2, [COLOR_ALPHA] = 4};
    const uint8_t *b = c->data;
    if (c->name != IHDR || c->n != 13 || b[9] >= sizeof steps || !steps[b[9]])
        return 0;
    if (big_endian(b) != (uint32_t)m->view->width || big_endian(b + 4) != (uint32_t)m->view->height)
        return 0;
    m->kind = b[9];
    m->depth = b[8];
    m->step = steps[b[9]] * (m->depth == 16 ? 2 : 1);
    const int usual = m->stored ? m->step == m->view->channels && m->step <= 4 : m->depth == 8;
    return usual && !b[10] && !b[11] && !b[12];
}

static int read_plte(image *m, const chunk *c)
{
    if (m->kind != PALETTE || m->palette || m->idats || !c->n || c->n > 3 * 256 || c->n % 3)
        return 0;
    m->palette = c->data;
    m->colors = c->n / 3;
    return 1;
}

static void read_idat(image *m, const chunk *c)
{
    if (!m->idats++)
        m->first_idat = c->data - HEAD - m->data;
    if (c->n && !m->full++)
        m->deflated = c->data;
    m->deflated_size += c->n;
}

/* read_chunks finds the chunks that determine the pixels, and the end after them. */
static int read_chunks(image *m)
{
    size_t at = SIGNATURE;
    chunk c;
    if (m->size < SIGNATURE || !next_chunk(m, &at, &c) || !read_ihdr(m, &c))
        return 0;
    for (uint32_t before = IHDR; next_chunk(m, &at, &c); before = c.name) {
        if (c.name == IEND)
            return !c.n && m->full && (m->kind != PALETTE || m->palette);
        if (c.name == IDAT && (!m->idats || before == IDAT))
            read_idat(m, &c);
        else if (!(c.name & ANCILLARY) && !(c.name == PLTE && read_plte(m, &c)))
            return 0;
    }
    return 0;
}

/* join copies the data of all IDATs to one place. */
static void join(image *m, uint8_t *to)
{
    size_t at = m->first_idat;
    m->deflated = to;
    for (int i = 0; i < m->idats; i++) {
        const uint8_t *p = m->data + at;
        const size_t n = big_endian(p);
        memcpy(to, p + HEAD, n);
        to += n;
        at += OVERHEAD + n;
    }
}

/* The maximum expansion of DEFLATE. */
enum { INFLATES_TO = 1032 };

/* allocate divides up the memory that is kept, for which pngKept returns an upper limit. To keep
 * that limit, data that must be joined and is much larger than its inflated size is left to libpng.
 * No memory is allocated for more rows than the data can inflate to. */
static int allocate(image *m, bfs_kept *k)
{
    const uint64_t bits = m->depth < 8 ? m->depth : 8 * m->step;
    const uint64_t stride = 1 + (m->view->width * bits + 7) / 8, rows = stride * m->view->height;
    const uint64_t strip = (uint64_t)BFS_STRIP * m->view->w * m->view->channels;
    const uint64_t joined = m->full > 1 ? m->deflated_size : 0;
    if (rows / INFLATES_TO > m->deflated_size || joined > rows + BFS_JOIN_SLACK || rows + stride + strip + joined > BFS_FAST_SCRATCH)
        return 0;
    uint8_t *at = bfs_grow(k, rows + stride + strip + joined);
    if (!at)
        return 0;
    m->stride = stride;
    m->rows = rows;
    m->inflated = at;
    m->zeros = memset(at + rows, 0, stride);
    m->strip = at + rows + stride;
    if (joined)
        join(m, m->strip + strip);
    return 1;
}

/* window_holds reports whether the announced window is certain to suffice. It can be below 32 KiB;
 * zlib refuses streams that look back further than announced, but libdeflate does not check
 * that. */
static int window_holds(const image *m)
{
    const int bits = 8 + (m->deflated[0] >> 4);
    return bits >= 15 || m->rows <= (size_t)1 << bits;
}

static int inflate(const image *m, struct libdeflate_decompressor *inflater)
{
    size_t used;
    return window_holds(m) &&
           libdeflate_zlib_decompress_ex(inflater, m->deflated, m->deflated_size, m->inflated, m->rows, &used, NULL) ==
               LIBDEFLATE_SUCCESS &&
           used == m->deflated_size;
}

/* fill_table expands the palette to the requested channels. Entries beyond it are black. */
static void fill_table(image *m)
{
    if (m->kind != PALETTE)
        return;
    memset(m->table, 0, sizeof m->table);
    for (int i = 0; i < m->colors; i++) {
        const uint8_t *const p = m->palette + 3 * i;
        m->table[i] = m->view->channels == 1 ? bfs_luma(p[0], p[1], p[2]) : p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    }
}

static void to_gray(const image *m, uint8_t *to, const uint8_t *from, int n)
{
    switch (m->kind) {
    case GRAY:
        memcpy(to, from, n);
        break;
    case GRAY_ALPHA:
        for (int i = 0; i < n; i++)
            to[i] = from[2 * i];
        break;
    case PALETTE:
        for (int i = 0; i < n; i++)
            to[i] = (uint8_t)m->table[from[i]];
        break;
    case COLOR:
        bfs_gray(to, from, n);
        break;
    default:
        for (int i = 0; i < n; i++)
            bfs_gray(to + i, from + 4 * i, 1);
    }
}

static void to_rgb(const image *m, uint8_t *to, const uint8_t *from, int n)
{
    switch (m->kind) {
    case GRAY:
        for (int i = 0; i < n; i++)
            memset(to + 3 * i, from[i], 3);
        break;
    case GRAY_ALPHA:
        for (int i = 0; i < n; i++)
            memset(to + 3 * i, from[2 * i], 3);
        break;
    case PALETTE:
        bfs_colours(to, from, (size_t)n, m->table);
        break;
    case COLOR:
        memcpy(to, from, 3 * (size_t)n);
        break;
    default:
        for (int i = 0; i < n; i++)
            memcpy(to + 3 * i, from + 4 * i, 3);
    }
}

static void convert(const image *m, uint8_t *to, const uint8_t *from)
{
    if (m->view->channels == 1)
        to_gray(m, to, from, m->view->w);
    else
        to_rgb(m, to, from, m->view->w);
}

/* emit converts row i of the region and places it: directly if its pixels stay adjacent, else a
 * strip at a time. */
static void emit(const image *m, int i, const uint8_t *from)
{
    const bfs_view *v = m->view;
    if (v->dx == v->channels) {
        convert(m, m->to + i * v->dy, from);
        return;
    }
    const size_t stride = (size_t)v->w * v->channels;
    const int k = i % BFS_STRIP;
    convert(m, m->strip + k * stride, from);
    if (k == BFS_STRIP - 1 || i == v->h - 1)
        bfs_place(m->to + (i - k) * v->dy, v->dx, v->dy, v->channels, m->strip, stride, v->w, k + 1);
}

/* filters_known checks that every row has a known filter, including rows outside the region:
 * libpng would read all of them. */
static int filters_known(const image *m)
{
    for (size_t at = 0; at < m->rows; at += m->stride)
        if (m->inflated[at] >= BFS_FILTERS)
            return 0;
    return 1;
}

static inline __attribute__((always_inline)) void split_by(uint8_t *to, const uint8_t *from, int n, const int depth)
{
    const int each = 8 / depth, mask = (1 << depth) - 1;
    for (int i = 0; i < n / each; i++)
        for (int k = 0; k < each; k++)
            to[i * each + k] = from[i] >> (8 - depth - k * depth) & mask;
    for (int i = n / each * each; i < n; i++)
        to[i] = from[i / each] >> (8 - depth - i % each * depth) & mask;
}

/* split writes values of fewer than 8 bits, the first one in the highest bits of a byte. */
static void split(uint8_t *to, const uint8_t *from, int n, int depth)
{
    if (depth == 1)
        split_by(to, from, n, 1);
    else if (depth == 2)
        split_by(to, from, n, 2);
    else
        split_by(to, from, n, 4);
}

/* unfilter_bits unfilters a whole image with several pixels per byte. */
static void unfilter_bits(const image *m)
{
    const uint8_t *above = m->zeros;
    for (int y = 0; y < m->view->height; y++) {
        uint8_t *row = m->inflated + y * m->stride;
        bfs_unfilter(row[0], row + 1, row + 1, above, m->stride - 1, 1, m->portable);
        above = row + 1;
        split(m->to + y * m->view->dy, above, m->view->width, m->depth);
    }
}

/* unfilter stops at the region's last row and last column. Rows that need no conversion are
 * unfiltered into the destination, others in place. */
static void unfilter(const image *m)
{
    const bfs_view *v = m->view;
    const int plain = m->stored || (m->kind == (v->channels == 1 ? GRAY : COLOR) && v->dx == v->channels && v->x == 0);
    const size_t n = ((size_t)v->x + v->w) * m->step;
    const uint8_t *above = m->zeros;
    for (int y = 0; y < v->y + v->h; y++) {
        uint8_t *row = m->inflated + y * m->stride, *to = row + 1;
        if (plain && y >= v->y)
            to = m->to + (y - v->y) * v->dy;
        bfs_unfilter(row[0], to, row + 1, above, n, m->step, m->portable);
        if (!plain && y >= v->y)
            emit(m, y - v->y, to + (size_t)v->x * m->step);
        above = to;
    }
}

/* bfs_png_fast decodes an image and returns 1, or returns 0 if libpng must. */
int bfs_png_fast(bfs_kept *k, const uint8_t *data, size_t size, uint8_t *to, const bfs_view *v, int stored, int portable)
{
    image m = {.data = data, .size = size, .view = v, .to = to, .stored = stored, .portable = portable};
    if (!k->inflater)
        k->inflater = libdeflate_alloc_decompressor();
    if (!k->inflater || !read_chunks(&m) || !allocate(&m, k) || !inflate(&m, k->inflater) || !filters_known(&m))
        return 0;
    fill_table(&m);
    if (m.depth < 8)
        unfilter_bits(&m);
    else
        unfilter(&m);
    return 1;
}
