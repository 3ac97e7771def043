//go:build cgo

#include "bfs_baseline.h"
#include "bfs_progressive.h"
#include "bfs_tiers.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    bfs_picture p;
    const bfs_implementation *by;
    bfs_entries entries;
    bfs_tiers tiers; /* what all coefficients are packed into, too */
    const bfs_table *first;
    bfs_phase phase[BFS_SLICE + 1];
    bfs_scan scan[2];         /* the second is used only with entry points */
    int16_t *coefficients[2]; /* of a row of MCUs, for each scan */
    int row;                  /* the row being read, without entry points */
} job;

/* find_tables finds the tables that decode each block. */
static int find_tables(job *j, bfs_table *held[BFS_TABLES])
{
    const bfs_frame *f = &j->p.f;
    const bfs_table *dc[3], *ac[3];
    for (int i = 0; i < f->components; i++) {
        const bfs_component *c = &f->c[i];
        int result = bfs_tables_find(held, f->code[0][c->dc], 0);
        if (result != BFS_OK)
            return result;
        dc[i] = held[0];
        result = bfs_tables_find(held, f->code[1][c->ac], 1);
        if (result != BFS_OK)
            return result;
        ac[i] = held[0];
        bfs_picture_quantize(&j->p, i);
    }
    int of[10];
    for (int i = 0; i < f->components; i++)
        for (int k = 0; k < f->c[i].h * f->c[i].v; k++)
            of[f->c[i].first + k] = i;
    j->first = dc[0];
    for (int i = 0; i <= BFS_SLICE; i++)
        j->phase[i] = (bfs_phase){ac[of[i % f->blocks]], dc[of[(i + 1) % f->blocks]]};
    return BFS_OK;
}

enum { ALIGNMENT = 128 };

/* bfs_baseline_most is the most memory that is kept for images of a given width. A row of MCUs has
 * at most 96 bytes of coefficients per column. */
size_t bfs_baseline_most(int width)
{
    const size_t columns = (size_t)width + 31;
    return BFS_TABLES * sizeof(bfs_table) + ALIGNMENT + 2 * (BFS_WINDOW + 96 * columns) + bfs_picture_most(columns);
}

/* lay_out gives each part its memory. */
static int lay_out(job *j, bfs_kept *k)
{
    const size_t coefficients = (size_t)j->p.f.across * j->p.f.blocks * 128;
    const int scans = j->entries.given ? 2 : 1;
    uint8_t *p = bfs_grow(k, ALIGNMENT + scans * (coefficients + BFS_WINDOW) + bfs_picture_bytes(&j->p));
    if (!p)
        return BFS_MEMORY;
    p += -(uintptr_t)p & (ALIGNMENT - 1); /* aligned for blocks and vectors */
    for (int i = 0; i < scans; i++, p += coefficients)
        j->coefficients[i] = (int16_t *)p;
    p = bfs_picture_lay_out(&j->p, p);
    for (int i = 0; i < scans; i++, p += BFS_WINDOW)
        j->scan[i].window = p;
    return BFS_OK;
}

/* find_blocks finds the blocks of a row of MCUs, beginning with MCU first. */
static void find_blocks(const job *j, const int16_t *row, int first, bfs_blocks blocks[3])
{
    const bfs_frame *f = &j->p.f;
    const ptrdiff_t mcu = f->blocks * 64;
    for (int i = 0; i < f->components; i++) {
        const bfs_component *c = &f->c[i];
        blocks[i] = (bfs_blocks){row + first * mcu + c->first * 64, c->h, mcu, c->h * 64};
    }
}

/* show makes the wanted pixels of a row of MCUs. */
static int show(job *j, int row, const int16_t *coefficients)
{
    bfs_blocks blocks[3];
    find_blocks(j, coefficients, j->p.first_mcu, blocks);
    return bfs_picture_show(&j->p, row, blocks);
}

static void pack(job *j, const int16_t *coefficients)
{
    bfs_blocks blocks[3];
    find_blocks(j, coefficients, 0, blocks);
    bfs_tiers_row(&j->tiers, blocks);
}

/* fetch brings a table back into the nearest cache, from which making pixels has evicted it. All of
 * its steps are about equally likely to be used. */
static void fetch(const bfs_table *t)
{
    for (int i = 0; i < 1 << BFS_LOOKUP; i += 64 / (int)sizeof *t->step)
        __builtin_prefetch(t->step + i);
}

/* A row of MCUs takes across * blocks * 128 bytes of coefficients. clear sets those that are needed
 * to zero, and fetches the tables that decode most of them. */
static int16_t *clear(const job *j, int16_t *row)
{
    const size_t mcu = (size_t)j->p.f.blocks * 64;
    const int first = j->tiers.packing ? 0 : j->p.first_mcu, last = j->tiers.packing ? j->p.f.across - 1 : j->p.last_mcu;
    int16_t *const needed = row + first * mcu;
    memset(needed, 0, (size_t)(last + 1 - first) * mcu * sizeof *needed);
    fetch(j->phase[0].ac);
    fetch(j->phase[j->p.f.blocks - 1].ac);
    return needed;
}

/* shows reports whether the row being read is in the region. */
static int shows(const job *j) { return j->row >= j->p.first_row && j->row <= j->p.last_row; }

/* begin asks the scan for the next row. Rows outside the region are decoded only for their length
 * in bits and their DC coefficients, unless they are packed. */
static void begin(job *j)
{
    if (j->tiers.packing || shows(j))
        clear(j, j->coefficients[0]);
    if (j->row < j->p.f.down)
        bfs_scan_want(j->scan, j->coefficients[0], j->p.f.across);
}

/* end completes the row that was read, and begins the next. */
static int end(job *j)
{
    int result = BFS_OK;
    if (j->p.to && shows(j))
        result = show(j, j->row, j->coefficients[0]);
    if (result == BFS_OK && j->tiers.packing)
        pack(j, j->coefficients[0]);
    if (!j->p.to && !j->tiers.packing)
        result = BFS_LEFT_DATA; /* there is nothing to do */
    if (result == BFS_OK && (j->row == j->p.last_row || j->row == j->p.f.down - 1))
        result = bfs_scan_end(j->scan);
    j->row++;
    begin(j);
    return result;
}

/* go_on reads the scan in order, up to a row. */
static int go_on(job *j, int row)
{
    int result = BFS_OK;
    while (result == BFS_OK && j->row < row) {
        result = bfs_scan_go(j->scan);
        if (result == BFS_OK)
            result = end(j);
    }
    return result;
}

/* last is the row at which reading may end. Making entry points needs all rows, and so does
 * packing. */
static int last(const job *j) { return j->entries.count || j->tiers.packing ? j->p.f.down : j->p.last_row + 1; }

/* go_together is go_on for two images that take turns. It does not say which of them has an
 * anomaly. */
static int go_together(job *a, job *b)
{
    int result = BFS_OK;
    while (result == BFS_OK && a->row < last(a) && b->row < last(b)) {
        result = bfs_scan_go_together(a->scan, b->scan);
        if (result == BFS_OK && a->scan->wanted == 0)
            result = end(a);
        if (result == BFS_OK && b->scan->wanted == 0)
            result = end(b);
    }
    if (result == BFS_OK)
        result = go_on(a, last(a));
    return result == BFS_OK ? go_on(b, last(b)) : result;
}

/* begin_row goes to the needed MCUs of a row. */
static int begin_row(job *j, int i, int row)
{
    bfs_scan *s = &j->scan[i];
    const int first = row * j->p.f.across, n = j->p.last_mcu + 1 - j->p.first_mcu;
    const int result = bfs_scan_seek(s, first + j->p.first_mcu, first + j->p.last_mcu + 1, j->coefficients[i], j->p.f.across);
    bfs_scan_want(s, clear(j, j->coefficients[i]), n);
    return result;
}

/* decode_entered reads the needed MCUs of each row, from entry points. Two scans take turns. */
static int decode_entered(job *j)
{
    const int first = j->p.first_row, last = j->p.last_row;
    int result = begin_row(j, 0, first);
    if (result == BFS_OK && first < last)
        result = begin_row(j, 1, first + 1);
    for (int row = first; result == BFS_OK && row <= last; row++) {
        const int i = (row - first) & 1;
        bfs_scan *const s = &j->scan[i], *const other = &j->scan[!i];
        if (row < last)
            result = bfs_scan_go_together(s, other);
        if (result == BFS_OK)
            result = bfs_scan_go(s);
        if (result == BFS_OK)
            result = bfs_scan_arrive(s);
        if (result == BFS_OK)
            result = show(j, row, j->coefficients[i]);
        if (result == BFS_OK && row == last)
            return bfs_scan_end(s);
        if (result == BFS_OK && row + 2 <= last)
            result = begin_row(j, i, row + 2);
    }
    return result;
}

/* finish reads the rest of a decoded image if entry points are made or it is packed, and records
 * the outcome of both. */
static void finish(job *j, bfs_kept *k)
{
    const int whole = !j->p.f.progressive && go_on(j, last(j)) == BFS_OK;
    if (j->entries.every)
        k->entries = whole && j->entries.count && !j->scan->entries.failed ? BFS_ENTRIES_MADE : BFS_ENTRIES_NONE;
    k->packed = j->tiers.packing && (whole || j->p.f.progressive) ? j->tiers.size : 0;
}

/* place_entries counts the image's entry points, and finds memory for those that will be made. */
static int place_entries(job *j, bfs_kept *k)
{
    bfs_entries *e = &j->entries;
    const int total = j->p.f.across * j->p.f.down, given = e->count;
    if (!e->every)
        return BFS_OK;
    if (e->every < 0)
        e->every = j->p.f.across;
    e->count = (total - 1) / e->every;
    if (e->given)
        return e->count == given ? BFS_OK : BFS_LEFT_DATA;
    if (e->count > BFS_MOST_ENTRIES)
        e->count = 0;
    if (e->count > k->made_room) {
        free(k->made);
        k->made_room = 0;
        k->made = malloc(e->count * sizeof *k->made);
        if (!k->made)
            return bfs_fail(k, BFS_MEMORY, "No memory for entry points");
        k->made_room = e->count;
    }
    e->made = k->made;
    k->made_count = e->count;
    return BFS_OK;
}

/* need finds which bytes, besides the header, are read with given entry points. */
static bfs_part need(const job *j, const uint8_t *data, size_t size)
{
    const bfs_picture *p = &j->p;
    const bfs_part scan = {(size_t)(p->f.scan - data), size};
    return bfs_entries_need(&j->entries, scan, p->first_row * p->f.across + p->first_mcu, p->last_row * p->f.across + p->last_mcu + 1);
}

/* bfs_baseline_need finds which part of a file, besides the header, is read with given entry
 * points. It finds none if that part might not suffice. head has the first shown bytes of the
 * file. */
bfs_part bfs_baseline_need(const uint8_t *head, size_t shown, size_t size, bfs_view view, bfs_entries entries)
{
    job j = {.p = {.view = view}, .entries = entries};
    if (bfs_frame_read(&j.p.f, head, shown) != BFS_OK || j.p.f.progressive || bfs_picture_plan(&j.p) != BFS_OK ||
        place_entries(&j, NULL) != BFS_OK)
        return (bfs_part){0};
    return need(&j, head, size);
}

/* set_end limits reading to the part of the file that is there. */
static int set_end(job *j, bfs_task *t)
{
    const bfs_part there = j->entries.part;
    if (!there.to)
        return BFS_OK;
    const bfs_part needed = need(j, t->data, t->size);
    t->size = there.to;
    return needed.from >= there.from && needed.to <= there.to ? BFS_OK : BFS_LEFT_DATA;
}

/* prepare does everything before the entropy-coded data. Of a progressive image, it reads only the
 * markers. */
static int prepare(job *j, bfs_kept *k, int kernel, bfs_task t)
{
    const bfs_implementation *const by = bfs_baseline_by(kernel);
    *j = (job){.p = {.view = t.view, .to = t.to, .kernel = by->pixels}, .by = by, .entries = t.entries};
    int result = bfs_frame_read(&j->p.f, t.data, t.size);
    if (result == BFS_OK)
        result = bfs_picture_plan(&j->p);
    if (result == BFS_OK && t.pack)
        bfs_tiers_start(&j->tiers, &j->p.f, kernel, t.pack, t.room);
    if (result != BFS_OK || j->p.f.progressive)
        return result;
    result = place_entries(j, k);
    if (result == BFS_OK)
        result = set_end(j, &t);
    if (result == BFS_OK)
        result = lay_out(j, k);
    if (result == BFS_OK)
        result = find_tables(j, k->tables);
    if (result != BFS_OK)
        return result;
    for (int i = 0; i < (j->entries.given ? 2 : 1); i++) {
        bfs_scan *s = &j->scan[i];
        s->frame = &j->p.f;
        s->blocks = j->p.f.blocks;
        s->by = j->by;
        s->first = j->first;
        s->phase = j->phase;
        s->file = t.data;
        s->file_end = t.data + t.size;
        s->entries = j->entries;
        bfs_scan_start(s);
    }
    if (!j->entries.given)
        begin(j);
    return BFS_OK;
}

static int attempt(job *j, bfs_kept *k, int kernel, const bfs_task *t)
{
    const int result = prepare(j, k, kernel, *t);
    if (result != BFS_OK)
        return result;
    if (j->p.f.progressive)
        return j->entries.given ? BFS_LEFT_DATA : bfs_progressive_decode(&j->p, k, j->by->passes, t->data + t->size, &j->tiers);
    return j->entries.given ? decode_entered(j) : go_on(j, j->p.last_row + 1);
}

/* bfs_baseline_decode returns BFS_OK, BFS_MEMORY, or why it leaves the image to libjpeg; the
 * destination's contents are then undefined. If only a part of the file is there, it returns
 * BFS_PART instead of a reason. It uses the given entry points, or makes them if there are none;
 * bfs_kept has the outcome. */
int bfs_baseline_decode(bfs_kept *k, int kernel, bfs_task task)
{
    const bfs_entries entries = task.entries;
    job j;
    int result = attempt(&j, k, kernel, &task);
    if (entries.part.to && result != BFS_OK && result != BFS_MEMORY) {
        k->entries = BFS_ENTRIES_UNUSED;
        return bfs_fail(k, BFS_PART, "the part that was read does not suffice");
    }
    if (entries.given && result == BFS_LEFT_DATA) {
        task.entries = (bfs_entries){0};
        result = bfs_baseline_decode(k, kernel, task);
        /* If the data was the reason, entry points are useless: they would be made and stored again
         * and again. */
        k->entries = result == BFS_LEFT_DATA ? BFS_ENTRIES_NONE : BFS_ENTRIES_WRONG;
        return result;
    }
    if (result == BFS_MEMORY)
        bfs_fail(k, BFS_MEMORY, "No memory for tables and coefficients");
    else
        k->jpegs[result == BFS_OK ? 0 : result - BFS_LEFT_KIND + 1]++;
    k->entries = BFS_ENTRIES_UNUSED;
    if (entries.given)
        k->entries = result == BFS_OK ? BFS_ENTRIES_USED : BFS_ENTRIES_UNUSED;
    else if (entries.every && result != BFS_MEMORY)
        k->entries = BFS_ENTRIES_NONE;
    k->packed = 0;
    if (result == BFS_OK && !entries.given)
        finish(&j, k);
    return result;
}

/* bfs_baseline_decode_pair decodes two images without given entry points, in less time than one
 * after the other. If anything is wrong with one of them, it returns 0 and says nothing about
 * either. */
int bfs_baseline_decode_pair(bfs_kept *ka, bfs_kept *kb, int kernel, bfs_task ta, bfs_task tb)
{
    bfs_kept *const k[2] = {ka, kb};
    const bfs_task *const t[2] = {&ta, &tb};
    job j[2];
    for (int i = 0; i < 2; i++)
        if (prepare(&j[i], k[i], kernel, *t[i]) != BFS_OK || j[i].p.f.progressive)
            return 0;
    if (go_together(&j[0], &j[1]) != BFS_OK)
        return 0;
    for (int i = 0; i < 2; i++) {
        k[i]->jpegs[0]++;
        k[i]->entries = BFS_ENTRIES_UNUSED;
        finish(&j[i], k[i]);
    }
    return 1;
}

/* bfs_tiers_pack packs a JPEG without making pixels; the view is the whole image. If it returns
 * neither BFS_OK nor BFS_MEMORY, the image is left to libjpeg-turbo. */
int bfs_tiers_pack(bfs_kept *k, int kernel, bfs_task task)
{
    job j;
    const int result = attempt(&j, k, kernel, &task);
    if (result != BFS_OK || !j.tiers.packing)
        return result == BFS_OK ? BFS_LEFT_DATA : result;
    k->packed = j.tiers.size;
    return BFS_OK;
}
