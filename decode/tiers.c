//go:build cgo

#include "bfs_tiers.h"

enum {
    ALIGNMENT = 128,
    TABLE = 128,                  /* bytes of a quantization table */
    SUM = 4,                            /* bytes of a chunk's checksum, which is made and compared elsewhere */
    ENTRY = 2 * BFS_TIERS_STREAMS + SUM /* bytes of an entry of the table of chunks */
};

static void put16(uint8_t *to, uint16_t v)
{
    to[0] = (uint8_t)v;
    to[1] = (uint8_t)(v >> 8);
}

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static bfs_tiers_mcu mcu_of(const bfs_frame *f)
{
    bfs_tiers_mcu mcu = {.count = f->blocks};
    for (int i = 0; i < f->components; i++)
        memset(mcu.component + f->c[i].first, i, (size_t)(f->c[i].h * f->c[i].v));
    return mcu;
}

/* chunks is how many chunks a row of MCUs has. */
static int chunks(const bfs_frame *f) { return (f->across + BFS_TIERS_MCUS - 1) / BFS_TIERS_MCUS; }

/* chunk_mcus is the size of a row's chunk. */
static int chunk_mcus(const bfs_frame *f, int chunk)
{
    const int rest = f->across - chunk * BFS_TIERS_MCUS;
    return rest < BFS_TIERS_MCUS ? rest : BFS_TIERS_MCUS;
}

/* put_header writes the header and each used quantization table. */
static void put_header(bfs_tiers *t)
{
    const bfs_frame *f = t->frame;
    uint8_t *const to = t->body;
    int of[4] = {-1, -1, -1, -1}, n = 0;
    memset(to, 0, BFS_TIERS_HEADER);
    for (int i = 0; i < f->components; i++) {
        const bfs_component *c = &f->c[i];
        if (of[c->quant] < 0) {
            for (int k = 0; k < 64; k++)
                put16(to + BFS_TIERS_HEADER + n * TABLE + 2 * k, f->quant[c->quant][k]);
            of[c->quant] = n++;
        }
        to[3 + 2 * i] = (uint8_t)(c->h << 4 | c->v);
        to[4 + 2 * i] = (uint8_t)of[c->quant];
    }
    to[0] = (uint8_t)f->components;
    to[1] = (uint8_t)f->rgb;
    to[2] = (uint8_t)n;
    t->table = BFS_TIERS_HEADER + (size_t)n * TABLE;
    t->size = t->table + (size_t)chunks(f) * f->down * ENTRY;
}

/* set_limits finds the limits within which the transform of pixels accepts the coefficients of a
 * first row. */
static void set_limits(bfs_tiers *t)
{
    bfs_picture p = {.f = *t->frame};
    memset(t->limit, 0xff, sizeof t->limit);
    for (int i = 0; i < p.f.components; i++) {
        bfs_picture_quantize(&p, i);
        for (int k = 0; k < 32; k++)
            if (bfs_natural[k] < 8)
                t->limit[i][k] = p.quant[i].limit[bfs_natural[k]];
    }
}

/* bfs_tiers_start begins a body in room bytes. */
void bfs_tiers_start(bfs_tiers *t, const bfs_frame *f, int kernel, uint8_t *to, size_t room)
{
    *t = (bfs_tiers){.frame = f, .pack = bfs_tiers_by(kernel).pack, .mcu = mcu_of(f), .body = to, .room = room};
    if (room < BFS_TIERS_HEADER + 3 * TABLE + (size_t)chunks(f) * (size_t)f->down * ENTRY)
        return;
    put_header(t);
    set_limits(t);
    t->packing = 1;
}

/* put_chunk packs n blocks, and reports whether it could. Streams are first written with room for
 * the worst case, and then moved together. */
static int put_chunk(bfs_tiers *t, const int16_t *const *blocks, int n)
{
    if (t->room - t->size < BFS_TIERS_MOST)
        return 0;
    uint8_t *const h = t->body + t->size, *from[BFS_TIERS_STREAMS], *to[BFS_TIERS_STREAMS],
                   *at = h + n;
    for (int i = 0; i < BFS_TIERS_STREAMS; i++) {
        from[i] = to[i] = at;
        at += bfs_tiers_worst(i, n) + BFS_TIERS_SLACK;
    }
    if (!t->pack(to, h, blocks, &t->mcu, n, (const uint16_t (*)[32])t->limit))
        return 0;
    at = to[0];
    for (int i = 0; i < BFS_TIERS_STREAMS; i++, t->table += 2) {
        const size_t size = (size_t)(to[i] - from[i]);
        put16(t->body + t->table, (uint16_t)size);
        if (i > 0) {
            memmove(at, from[i], size);
            at += size;
        }
    }
    t->table += SUM;
    t->size = (size_t)(at - t->body);
    return 1;
}

/* bfs_tiers_row packs all of the next row of MCUs. Groups must be of one block, or of a component's
 * blocks in an MCU. It fails if the row's pixels are left to libjpeg-turbo, or if there is too
 * little room. */
void bfs_tiers_row(bfs_tiers *t, const bfs_blocks blocks[3])
{
    const bfs_frame *f = t->frame;
    const int16_t *of[BFS_TIERS_BLOCKS];
    for (int chunk = 0; t->packing && chunk < chunks(f); chunk++) {
        const int first = chunk * BFS_TIERS_MCUS, mcus = chunk_mcus(f, chunk);
        int n = 0;
        for (int m = first; m < first + mcus; m++)
            for (int i = 0; i < f->components; i++) {
                const bfs_component *c = &f->c[i];
                const bfs_blocks *b = &blocks[i];
                const ptrdiff_t left = b->group == 1 ? m * c->h * b->step : m * b->step;
                for (int v = 0; v < c->v; v++)
                    for (int x = 0; x < c->h; x++)
                        of[n++] = b->at + v * b->down + left + x * (b->group == 1 ? b->step : 64);
            }
        t->packing = put_chunk(t, of, n);
    }
}

/* A body that is being read. */
typedef struct {
    bfs_picture p;
    bfs_tiers_mcu mcu;
    bfs_tiers_unpacker *unpack;
    const uint8_t *entry, *chunk, *end; /* next entry of the table, next chunk, end of the body */
    int16_t *coefficients;              /* of the needed chunks of a row */
    uint8_t *copy;                      /* of a chunk that is too near to the end */
    int next;                           /* the number of the next chunk */
} reader;

enum { COPY = 2 * BFS_TIERS_MOST };

/* open_body reads everything before the chunks. */
static int open_body(reader *r, const uint8_t *body, size_t size)
{
    bfs_frame *f = &r->p.f;
    if (size < BFS_TIERS_HEADER || (body[0] != 1 && body[0] != 3) || body[1] > 1 ||
        (body[1] && body[0] == 1) || body[2] < 1 || body[2] > 3 ||
        size < BFS_TIERS_HEADER + (size_t)body[2] * TABLE)
        return BFS_CORRUPT;
    *f = (bfs_frame){.width = r->p.view.width,
                     .height = r->p.view.height,
                     .components = body[0],
                     .rgb = body[1]};
    for (int i = 0; i < f->components; i++) {
        f->c[i].h = body[3 + 2 * i] >> 4;
        f->c[i].v = body[3 + 2 * i] & 15;
        f->c[i].quant = body[4 + 2 * i];
        if (f->c[i].quant >= body[2])
            return BFS_CORRUPT;
    }
    for (int i = 0; i < body[2]; i++)
        for (int k = 0; k < 64; k++)
            f->quant[i][k] = get16(body + BFS_TIERS_HEADER + i * TABLE + 2 * k);
    if (bfs_frame_sampling(f) != BFS_OK)
        return BFS_CORRUPT;
    /* Each block has a byte H, so allocations are in proportion to the body. */
    if ((size_t)f->across * (size_t)f->down * (size_t)f->blocks > size)
        return BFS_CORRUPT;
    const size_t table = (size_t)chunks(f) * (size_t)f->down * ENTRY;
    r->entry = body + BFS_TIERS_HEADER + body[2] * TABLE;
    r->end = body + size;
    if ((size_t)(r->end - r->entry) < table)
        return BFS_CORRUPT;
    r->chunk = r->entry + table;
    r->mcu = mcu_of(f);
    return BFS_OK;
}

/* bfs_tiers_memory is the most memory kept for images of a width. A row of MCUs has at most 96
 * bytes of coefficients per column, and its last chunk is laid out in full. */
size_t bfs_tiers_memory(int width)
{
    const size_t columns = (size_t)width + BFS_TIERS_MCUS * 32;
    return ALIGNMENT + 2 * 96 * columns + bfs_picture_most(columns) + COPY;
}

static int lay_out(reader *r, bfs_kept *k)
{
    const bfs_picture *p = &r->p;
    const int columns = p->last_mcu / BFS_TIERS_MCUS + 1 - p->first_mcu / BFS_TIERS_MCUS;
    const size_t coefficients = (size_t)columns * BFS_TIERS_MCUS * p->f.blocks * 128;
    uint8_t *at = bfs_grow(k, ALIGNMENT + coefficients + bfs_picture_bytes(p) + COPY);
    if (!at)
        return BFS_MEMORY;
    at += -(uintptr_t)at & (ALIGNMENT - 1);
    r->coefficients = (int16_t *)at;
    r->copy = bfs_picture_lay_out(&r->p, at + coefficients);
    return BFS_OK;
}

/* A chunk's streams, and before them the bytes H of its blocks. */
typedef struct {
    const uint8_t *h, *from[BFS_TIERS_STREAMS], *end;
} streams;

/* next_chunk checks the next chunk, of n blocks, and moves past it. */
static int next_chunk(reader *r, streams *s, int n)
{
    const uint8_t *at = r->chunk;
    if (r->end - at < n)
        return BFS_CORRUPT;
    s->h = at;
    at += n;
    for (int i = 0; i < BFS_TIERS_STREAMS; i++, r->entry += 2) {
        const size_t size = get16(r->entry);
        if (size > bfs_tiers_worst(i, n) || size > (size_t)(r->end - at))
            return BFS_CORRUPT;
        s->from[i] = at;
        at += size;
    }
    s->end = r->chunk = at;
    r->entry += SUM;
    r->next++;
    return BFS_OK;
}

/* go_to goes to the chunk with this number, which must be ahead. */
static int go_to(reader *r, int number)
{
    const bfs_frame *f = &r->p.f;
    int result = BFS_OK;
    streams s;
    while (result == BFS_OK && r->next < number)
        result = next_chunk(r, &s, chunk_mcus(f, r->next % chunks(f)) * f->blocks);
    return result;
}

/* make_room moves a chunk of n blocks to a place where its streams can be read in the worst case.
 * It is enough to consider the last stream: the earlier ones need no more bytes after them. */
static void make_room(const reader *r, streams *s, int n)
{
    if ((size_t)(r->end - s->end) >= bfs_tiers_worst(BFS_TIERS_W, n) + BFS_TIERS_SLACK)
        return;
    const size_t size = (size_t)(s->end - s->h);
    memcpy(r->copy, s->h, size);
    memset(r->copy + size, 0, BFS_TIERS_SLACK);
    for (int i = 0; i < BFS_TIERS_STREAMS; i++)
        s->from[i] = r->copy + (s->from[i] - s->h);
    s->end = r->copy + size;
    s->h = r->copy;
}

/* unpack makes the coefficients of the first MCUs of the next chunk. */
static int unpack(reader *r, int16_t *to, int all, int wanted)
{
    const int blocks = r->mcu.count;
    streams s;
    const int result = next_chunk(r, &s, all * blocks);
    if (result != BFS_OK)
        return result;
    make_room(r, &s, wanted * blocks);
    const uint8_t *used[BFS_TIERS_STREAMS];
    memcpy(used, s.from, sizeof used);
    if (!r->unpack(to, s.h, used, &r->mcu, wanted * blocks))
        return BFS_CORRUPT;
    for (int i = 0; i < BFS_TIERS_STREAMS; i++) {
        const uint8_t *const end = i + 1 < BFS_TIERS_STREAMS ? s.from[i + 1] : s.end;
        if (used[i] > end || (wanted == all && used[i] != end))
            return BFS_CORRUPT;
    }
    return BFS_OK;
}

/* show_row makes the pixels of a row of MCUs. */
static int show_row(reader *r, int row)
{
    const bfs_frame *f = &r->p.f;
    const int first = r->p.first_mcu / BFS_TIERS_MCUS, last = r->p.last_mcu / BFS_TIERS_MCUS;
    const ptrdiff_t mcu = f->blocks * 64;
    int result = go_to(r, row * chunks(f) + first);
    for (int chunk = first; result == BFS_OK && chunk <= last; chunk++) {
        const int all = chunk_mcus(f, chunk), wanted = r->p.last_mcu + 1 - chunk * BFS_TIERS_MCUS;
        int16_t *const to = r->coefficients + (chunk - first) * BFS_TIERS_MCUS * mcu;
        result = unpack(r, to, all, wanted < all ? wanted : all);
    }
    if (result != BFS_OK)
        return result;
    const int16_t *const needed = r->coefficients + (r->p.first_mcu - first * BFS_TIERS_MCUS) * mcu;
    bfs_blocks blocks[3];
    for (int i = 0; i < f->components; i++) {
        const bfs_component *c = &f->c[i];
        blocks[i] = (bfs_blocks){needed + c->first * 64, c->h, mcu, c->h * 64};
    }
    return bfs_picture_show(&r->p, row, blocks);
}

static int decode(reader *r, bfs_kept *k, const uint8_t *body, size_t size)
{
    int result = open_body(r, body, size);
    if (result == BFS_OK)
        result = bfs_picture_plan(&r->p);
    if (result == BFS_OK)
        result = lay_out(r, k);
    for (int i = 0; result == BFS_OK && i < r->p.f.components; i++)
        bfs_picture_quantize(&r->p, i);
    for (int row = r->p.first_row; result == BFS_OK && row <= r->p.last_row; row++)
        result = show_row(r, row);
    return result;
}

/* bfs_tiers_decode decodes a view of a packed JPEG. */
int bfs_tiers_decode(bfs_kept *k, int kernel, const uint8_t *body, size_t size, uint8_t *to,
                     bfs_view view)
{
    reader r = {.p = {.view = view, .to = to, .kernel = bfs_baseline_by(kernel)->pixels},
                .unpack = bfs_tiers_by(kernel).unpack};
    const int result = decode(&r, k, body, size);
    if (result == BFS_OK)
        return result;
    if (result == BFS_MEMORY)
        return bfs_fail(k, result, "No memory for coefficients");
    return bfs_fail(k, BFS_CORRUPT, "invalid coefficients");
}
