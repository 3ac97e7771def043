//go:build cgo

#include "bfs_baseline.h"

#include <string.h>

enum { RST0 = 0xd0, EOI = 0xd9, ALIGNMENT = 128 };

enum {
    MOST_BLOCKS = 1 << 24, /* more than any image within the usual limit: threads count in 32 bits */
    MOST_DATA = 1 << 28,
    GAP = 24,              /* at most, between segments */
    SLACK = 32,            /* destuffing writes past the end */
};

/* An image that is being packed. */
typedef struct {
    bfs_picture p;
    bfs_packed packed;
    bfs_packed_size size;
} packing;

static uint64_t take(uint64_t *size, uint64_t n)
{
    const uint64_t at = *size;
    *size += (n + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
    return at;
}

/* lay_out allots memory for an upper bound of everything. */
static void lay_out(packing *g, size_t data)
{
    bfs_packed *k = &g->packed;
    const uint64_t stretches = data * 8 / (uint64_t)k->bits + (uint64_t)k->segments;
    uint64_t *const packed = &g->size.packed, *const work = &g->size.work;
    take(packed, sizeof *k);
    k->tables = (uint32_t)take(packed, BFS_TABLES * sizeof(bfs_decoding));
    k->segment = (uint32_t)take(packed, (uint64_t)k->segments * sizeof(bfs_segment));
    k->segment_of = (uint32_t)take(packed, stretches * sizeof(uint32_t));
    k->data = (uint32_t)take(packed, data + (uint64_t)k->segments * GAP + SLACK);
    k->state = take(work, stretches * sizeof(uint64_t));
    k->from = take(work, stretches * sizeof(uint64_t));
    k->count = take(work, stretches * sizeof(uint32_t));
    k->coefficients = take(work, (uint64_t)k->mcus * (uint64_t)k->blocks * 128);
    for (int i = 0; i < k->components; i++) {
        const uint64_t blocks = (uint64_t)(k->last_row - k->first_row + 1) * (uint64_t)(k->last_mcu - k->first_mcu + 1) * (uint64_t)(k->c[i].h * k->c[i].v);
        k->plane[i] = take(work, blocks * 64);
        if (i == 0) /* the others are not sampled more finely */
            g->size.blocks = blocks;
    }
    k->pixels = g->size.pixels = take(work, (uint64_t)k->w * (uint64_t)k->h * (uint64_t)k->channels);
}

/* plan reads the header, and derives all sizes from it. */
static int plan(packing *g, const uint8_t *data, size_t n, bfs_view view, int bits)
{
    memset(g, 0, sizeof *g);
    bfs_picture *p = &g->p;
    const bfs_frame *f = &p->f;
    p->view = view;
    int result = bfs_frame_read(&p->f, data, n);
    if (result == BFS_OK)
        result = bfs_picture_plan(p);
    if (result != BFS_OK)
        return result;
    const uint64_t blocks = (uint64_t)f->across * (uint64_t)f->down * (uint64_t)f->blocks;
    if (f->progressive || view.scale != 1 || (f->rgb && view.channels == 1) || blocks > MOST_BLOCKS || n > MOST_DATA)
        return BFS_LEFT_KIND;
    const int mcus = (p->last_row + 1) * f->across, interval = f->interval && f->interval < mcus ? f->interval : mcus;
    g->packed = (bfs_packed){
        .components = f->components, .blocks = f->blocks, .across = f->across, .mcus = mcus,
        .interval = interval, .segments = (mcus + interval - 1) / interval, .bits = bits,
        .complete = p->last_row == f->down - 1,
        .first_row = p->first_row, .last_row = p->last_row, .first_mcu = p->first_mcu, .last_mcu = p->last_mcu,
        .x = view.x, .y = view.y, .w = view.w, .h = view.h, .channels = view.channels,
        .hmax = f->hmax, .vmax = f->vmax, .rgb = f->rgb,
    };
    memcpy(g->packed.c, f->c, sizeof g->packed.c);
    lay_out(g, (size_t)(data + n - f->scan));
    return BFS_OK;
}

/* put_tables makes each table once. */
static int put_tables(packing *g, uint8_t *to)
{
    const bfs_frame *f = &g->p.f;
    bfs_decoding *const tables = (bfs_decoding *)(to + g->packed.tables);
    const uint8_t *made[BFS_TABLES];
    int n = 0;
    for (int i = 0; i < 2 * f->components; i++) {
        const int ac = i & 1;
        const bfs_component *c = &f->c[i / 2];
        const uint8_t *code = f->code[ac][ac ? c->ac : c->dc];
        int at = 0;
        while (at < n && made[at] != code)
            at++;
        if (at == n) {
            if ((!ac && !bfs_codes_are_sizes(code)) || !bfs_codes_make(&tables[n].codes, code, BFS_PACKED_BITS, tables[n].known))
                return BFS_LEFT_HEADER;
            made[n++] = code;
        }
        memset(g->packed.table[ac] + c->first, at, (size_t)(c->h * c->v));
        bfs_picture_quantize(&g->p, i / 2);
    }
    memcpy(g->packed.quant, g->p.quant, sizeof g->packed.quant);
    return BFS_OK;
}

/* follows checks what comes after a segment: the expected marker or, if the image has more rows
 * than are wanted, an end marker anywhere after the last wanted MCU. */
static int follows(const packing *g, bfs_scan *s, int segment)
{
    const ptrdiff_t left = s->raw_end - s->raw;
    if (!s->ended || left < 2)
        return 0;
    if (segment < g->packed.segments - 1)
        return s->raw[1] == RST0 + (segment & 7);
    return g->packed.complete ? s->raw[1] == EOI : bfs_jpeg_ends(s->raw, (size_t)left);
}

static int put_data(packing *g, uint8_t *to, const uint8_t *file_end)
{
    bfs_packed *k = &g->packed;
    bfs_segment *const segments = (bfs_segment *)(to + k->segment);
    uint32_t *const segment_of = (uint32_t *)(to + k->segment_of);
    uint8_t *const start = to + k->data;
    bfs_scan s = {.raw = g->p.f.scan, .raw_end = file_end, .end = start};
    for (int i = 0; i < k->segments; i++, s.raw += 2) {
        uint8_t *const begin = s.end;
        s.ended = 0;
        bfs_window_destuff(&s, (size_t)(s.raw_end - s.raw) + 1);
        if (!follows(g, &s, i))
            return BFS_LEFT_DATA;
        segments[i] = (bfs_segment){(uint32_t)(begin - start), (uint32_t)(s.end - begin) * 8, (uint32_t)k->stretches};
        for (uint32_t bits = 0; bits < segments[i].bits; bits += (uint32_t)k->bits)
            segment_of[k->stretches++] = (uint32_t)i;
        memset(s.end, 0, 16);
        s.end += 8 + (-(s.end - start) & 7);
    }
    return BFS_OK;
}

/* bfs_pack_size finds how much memory an image takes when packed in stretches of bits bits, at
 * least 32, or why the image is left to other decoders. */
int bfs_pack_size(bfs_packed_size *size, const uint8_t *data, size_t n, bfs_view view, int bits)
{
    packing g;
    const int result = plan(&g, data, n, view, bits);
    *size = g.size;
    return result;
}

/* bfs_pack packs an image into the memory that bfs_pack_size announced. If it does not return
 * BFS_OK, the image is left to other decoders, and to holds an image without data, which decoders
 * report as damaged. */
int bfs_pack(uint8_t *to, bfs_packed_size announced, const uint8_t *data, size_t n, bfs_view view, int bits)
{
    packing g;
    int result = plan(&g, data, n, view, bits);
    if (result == BFS_OK && (g.size.packed > announced.packed || g.size.work > announced.work))
        result = BFS_LEFT_HEADER; /* the file has changed */
    if (result == BFS_OK)
        result = put_tables(&g, to);
    if (result == BFS_OK)
        result = put_data(&g, to, data + n);
    if (result != BFS_OK)
        g.packed = (bfs_packed){0};
    memcpy(to, &g.packed, sizeof g.packed);
    return result;
}
