//go:build cgo

#include "bfs_progressive.h"
#include "bfs_tiers.h"

#include <stdlib.h>

enum {
    ALIGNMENT = 128,
    MOST_SCANS = 64, /* images of any size may have this many; libjpeg decodes those with more */
    MOST_LOW = 13,
};

typedef struct {
    bfs_picture *p;
    const bfs_passes *passes;
    const uint8_t *end;       /* of the file */
    uint8_t *window;
    int16_t *coefficients[3]; /* of each component, in rows of blocks, of whole MCUs */
    int stride[3];            /* blocks in a row */
    int8_t missing[3][64];    /* bits of each coefficient yet to come; -1 before the first pass */
    int scans;
    bfs_scan scan;
    bfs_symbols sizes[3];     /* tables of the scan's components, in a first pass over DC coefficients */
    bfs_band band;
} image;

static int16_t *block_at(const image *m, int component, int row, int x)
{
    return m->coefficients[component] + ((size_t)row * m->stride[component] + x) * 64;
}

/* follow checks that the scan may follow the earlier ones, as libjpeg demands. */
static int follow(image *m)
{
    const bfs_frame *f = &m->p->f;
    if (++m->scans > MOST_SCANS)
        return BFS_LEFT_DATA;
    if (f->last > 63 || f->first > f->last || f->low > MOST_LOW || (f->high && f->high != f->low + 1))
        return BFS_LEFT_DATA;
    if (f->first == 0 ? f->last != 0 : f->count != 1 || m->missing[f->of[0]][0] < 0)
        return BFS_LEFT_DATA;
    for (int i = 0; i < f->count; i++)
        for (int k = f->first; k <= f->last; k++) {
            int8_t *missing = &m->missing[f->of[i]][k];
            if (*missing != (f->high ? f->high : -1))
                return BFS_LEFT_DATA;
            *missing = (int8_t)f->low;
        }
    return BFS_OK;
}

/* complete reports that nothing is missing. libjpeg smooths incomplete images. */
static int complete(const image *m)
{
    int missing = 0;
    for (int i = 0; i < m->p->f.components; i++)
        for (int k = 0; k < 64; k++)
            missing |= m->missing[i][k];
    return !missing;
}

/* find_symbols makes the tables of the scan. The coefficients of a scan, with their lower bits that
 * are still missing, must fit in 16 bits. */
static int find_symbols(image *m)
{
    const bfs_frame *f = &m->p->f;
    for (int i = 0; i < f->count; i++) {
        const bfs_component *c = &f->c[f->of[i]];
        const uint8_t *definition = f->first ? f->code[1][c->ac] : f->code[0][c->dc];
        if (f->first == 0 && f->high)
            continue; /* no codes */
        if (!definition || (f->first == 0 && !bfs_codes_are_sizes(definition)))
            return BFS_LEFT_HEADER;
        if (!bfs_symbols_make(f->first ? &m->band.symbols : &m->sizes[i], definition, f->high ? 1 : 15 - f->low))
            return BFS_LEFT_HEADER;
    }
    return BFS_OK;
}

/* difference returns the difference from the previous DC coefficient, or INT32_MAX. */
static inline int32_t difference(bfs_stream *s, const bfs_symbols *sizes)
{
    bfs_symbol e = sizes->symbol[s->bits >> (64 - BFS_SYMBOL_BITS)];
    if (e.length == 0) {
        const bfs_code c = bfs_codes_find(&sizes->codes, s->bits);
        if (c.length == 0)
            return INT32_MAX;
        e.code = c.length;
        e.size = c.symbol;
        e.length = (uint8_t)(c.length + c.symbol);
    }
    const int v = bfs_value(s->bits << e.code, e.size);
    bfs_consume(s, e.length);
    return v;
}

/* one_dc decodes the DC coefficient of a block of the scan's component i. */
static inline __attribute__((always_inline)) int one_dc(image *m, bfs_stream *s, int i, int16_t *dc)
{
    const int low = m->p->f.low;
    bfs_refill(s);
    if (m->p->f.high) {
        *dc |= (int16_t)((s->bits >> 63) << low);
        bfs_consume(s, 1);
        return 1;
    }
    const int32_t d = difference(s, &m->sizes[i]);
    if (d == INT32_MAX)
        return 0;
    m->scan.predicted[i] += d;
    const int32_t v = m->scan.predicted[i] * (1 << low);
    *dc = (int16_t)v;
    return v == *dc;
}

/* pass_dc decodes the DC coefficients of n MCUs. */
static int pass_dc(image *m, int row, int x, int n)
{
    const bfs_frame *f = &m->p->f;
    bfs_stream s = m->scan.stream;
    for (const int end = x + n; x < end; x++)
        for (int i = 0; i < f->count; i++) {
            const int k = f->of[i], across = f->count == 1 ? 1 : f->c[k].h, down = f->count == 1 ? 1 : f->c[k].v;
            for (int v = 0; v < down; v++)
                for (int h = 0; h < across; h++)
                    if (!one_dc(m, &s, i, block_at(m, k, row * down + v, x * across + h)))
                        return 0;
        }
    m->scan.stream = s;
    return 1;
}

/* pass_slice decodes the scan's next slice. */
static int pass_slice(image *m, int row, int x)
{
    const bfs_frame *f = &m->p->f;
    bfs_scan *s = &m->scan;
    if (s->left == 0)
        m->band.run = 0; /* a restart marker follows */
    const int result = bfs_scan_begin(s);
    if (result != BFS_OK)
        return result;
    bfs_band_pass *pass = f->high ? m->passes->refine : m->passes->first;
    const int right = f->first ? pass(&s->stream, &m->band, block_at(m, f->of[0], row, x), s->slice) : pass_dc(m, row, x, s->slice);
    return right ? bfs_scan_passed(s) : BFS_LEFT_DATA;
}

/* pass decodes a scan. A scan of one component has no blocks beyond its edges. */
static int pass(image *m)
{
    const bfs_frame *f = &m->p->f;
    const bfs_component *c = &f->c[f->of[0]];
    const int alone = f->count == 1, across = alone ? (c->width + 7) / 8 : f->across, down = alone ? (c->height + 7) / 8 : f->down;
    int blocks = alone ? 1 : 0, result = BFS_OK;
    for (int i = 0; i < f->count && !alone; i++)
        blocks += f->c[f->of[i]].h * f->c[f->of[i]].v;
    m->scan = (bfs_scan){.frame = f, .blocks = blocks, .file_end = m->end, .window = m->window};
    m->band.first = f->first;
    m->band.last = f->last;
    m->band.low = f->low;
    m->band.run = 0;
    bfs_scan_start(&m->scan);
    for (int row = 0; result == BFS_OK && row < down; row++) {
        bfs_scan_want(&m->scan, NULL, across);
        while (result == BFS_OK && m->scan.wanted > 0)
            result = pass_slice(m, row, across - m->scan.wanted);
    }
    return result == BFS_OK ? bfs_scan_at_marker(&m->scan) : result;
}

static int decode(image *m)
{
    bfs_frame *f = &m->p->f;
    int result = BFS_OK;
    while (result == BFS_OK && f->scan) {
        result = follow(m);
        if (result == BFS_OK)
            result = find_symbols(m);
        if (result == BFS_OK)
            result = pass(m);
        if (result == BFS_OK)
            result = bfs_frame_next(f, m->scan.raw, m->end);
    }
    if (result == BFS_OK && !complete(m))
        return BFS_LEFT_DATA;
    return result;
}

/* find_blocks finds the blocks of a row of MCUs, from MCU first on. */
static void find_blocks(const image *m, int row, int first, bfs_blocks blocks[3])
{
    for (int i = 0; i < m->p->f.components; i++) {
        const bfs_component *c = &m->p->f.c[i];
        blocks[i] = (bfs_blocks){block_at(m, i, row * c->v, first * c->h), 1, 64, (ptrdiff_t)m->stride[i] * 64};
    }
}

/* show makes the wanted pixels. */
static int show(const image *m)
{
    bfs_picture *p = m->p;
    int result = BFS_OK;
    for (int row = p->first_row; result == BFS_OK && row <= p->last_row; row++) {
        bfs_blocks blocks[3];
        find_blocks(m, row, p->first_mcu, blocks);
        result = bfs_picture_show(p, row, blocks);
    }
    return result;
}

static void pack(const image *m, bfs_tiers *tiers)
{
    for (int row = 0; tiers->packing && row < m->p->f.down; row++) {
        bfs_blocks blocks[3];
        find_blocks(m, row, 0, blocks);
        bfs_tiers_row(tiers, blocks);
    }
}

/* bfs_progressive_decode decodes a planned image whose markers have been read up to its first scan.
 * end is the end of the file. The whole image is also packed to tiers. The coefficients are freed
 * again, because they can be large. */
int bfs_progressive_decode(bfs_picture *p, bfs_kept *k, const bfs_passes *passes, const uint8_t *end, bfs_tiers *tiers)
{
    const bfs_frame *f = &p->f;
    image m = {.p = p, .passes = passes, .end = end};
    uint8_t *at = bfs_grow(k, ALIGNMENT + BFS_WINDOW + bfs_picture_bytes(p));
    if (!at)
        return BFS_MEMORY;
    m.window = bfs_picture_lay_out(p, at + (-(uintptr_t)at & (ALIGNMENT - 1)));
    size_t size = ALIGNMENT;
    for (int i = 0; i < f->components; i++) {
        m.stride[i] = f->across * f->c[i].h;
        size += (size_t)m.stride[i] * f->down * f->c[i].v * 128;
    }
    uint8_t *const memory = calloc(1, size);
    if (!memory)
        return BFS_MEMORY;
    at = memory + (-(uintptr_t)memory & (ALIGNMENT - 1));
    for (int i = 0; i < f->components; i++) {
        m.coefficients[i] = (int16_t *)at;
        at += (size_t)m.stride[i] * f->down * f->c[i].v * 128;
        bfs_picture_quantize(p, i);
    }
    memset(m.missing, -1, sizeof m.missing);
    int result = decode(&m);
    if (result == BFS_OK)
        result = p->to ? show(&m) : BFS_OK;
    if (result == BFS_OK)
        pack(&m, tiers);
    free(memory);
    return result;
}
