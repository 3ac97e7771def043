//go:build cgo

#include "bfs_baseline.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    bfs_frame f;
    bfs_view view;
    uint8_t *to;
    const bfs_kernel *kernel;
    bfs_quant quant[3];
    bfs_entropy *entropy;
    bfs_entropies *together;
    bfs_entries entries;
    const bfs_table *first;
    bfs_phase phase[BFS_SLICE + 1];
    bfs_scan scan[2];             /* the second is used with entry points only */

    int first_row, last_row, first_mcu, last_mcu; /* MCUs needed */
    int row;                      /* of MCUs */
    int16_t *coefficients[2];     /* of a row of MCUs, for each scan */
    uint8_t *plane[3];            /* samples of the row; before them, the last row of those above */
    ptrdiff_t stride[3];
    uint8_t *filtered[2];         /* a row of chroma, or of sums */
    uint8_t *strip;               /* rows that cannot be decoded in place, if there are any */
} job;

/* sample_row is row y of component i. */
static uint8_t *sample_row(const job *j, int i, int y) { return j->plane[i] + (y - j->row * 8 * j->f.c[i].v) * j->stride[i]; }

/* keep_last keeps what the next row of MCUs needs of this one. */
static void keep_last(job *j)
{
    for (int i = 0; i < j->f.components; i++)
        memcpy(j->plane[i] - j->stride[i], j->plane[i] + (8 * j->f.c[i].v - 1) * j->stride[i], j->stride[i]);
}

/* transform makes samples of the needed MCUs of the row. */
static int transform(job *j, const int16_t *coefficients)
{
    int certain = 1;
    const int components = j->view.channels == 1 ? 1 : j->f.components;
    const int n = j->last_mcu - j->first_mcu + 1;
    const ptrdiff_t step = j->f.blocks * 64;
    for (int i = 0; i < components; i++) {
        const bfs_component *c = &j->f.c[i];
        for (int v = 0; v < c->v; v++)
            certain &= j->kernel->idct(coefficients + j->first_mcu * step + (c->first + v * c->h) * 64, n * c->h, c->h, step, &j->quant[i],
                                       j->plane[i] + v * 8 * j->stride[i] + j->first_mcu * 8 * c->h, j->stride[i]);
    }
    return certain ? BFS_OK : BFS_LEFT_DATA;
}

/* sum_row makes the sums for row y of chroma that has half the width, from the rows near and far
 * of it. */
static uint16_t *sum_row(job *j, int i, const uint8_t *near, const uint8_t *far)
{
    const bfs_view *v = &j->view;
    const int width = j->f.c[1].width;
    const int from = v->x / 2 > 0 ? v->x / 2 - 1 : 0, wanted = (v->x + v->w - 1) / 2 + 2, to = wanted < width ? wanted : width;
    uint16_t *sums = (uint16_t *)j->filtered[i];
    j->kernel->sum(sums + from, near + from, far + from, to - from);
    if (from == 0)
        sums[-1] = sums[0];
    if (to == width)
        sums[width] = sums[width - 1];
    return sums;
}

/* far_row is the row of chroma on the other side of row y, for chroma of half the height. */
static int far_row(const job *j, int y)
{
    const int far = y % 2 ? y / 2 + 1 : y / 2 - 1, last = j->f.c[1].height - 1;
    return far < 0 ? 0 : far > last ? last : far;
}

static void gray_row(uint8_t *to, const uint8_t *y, int n, int channels)
{
    if (channels == 1) {
        memcpy(to, y, n);
        return;
    }
    for (int i = 0; i < n; i++)
        to[3 * i] = to[3 * i + 1] = to[3 * i + 2] = y[i];
}

static void rgb_row(uint8_t *to, const uint8_t *r, const uint8_t *g, const uint8_t *b, int n)
{
    for (int i = 0; i < n; i++) {
        to[3 * i] = r[i];
        to[3 * i + 1] = g[i];
        to[3 * i + 2] = b[i];
    }
}

/* make_row makes the pixels of row y. */
static void make_row(job *j, uint8_t *to, int y)
{
    const bfs_view *v = &j->view;
    const uint8_t *luma = sample_row(j, 0, y);
    if (v->channels == 1 || j->f.components == 1) {
        gray_row(to, luma + v->x, v->w, v->channels);
        return;
    }
    const int across = j->f.hmax / j->f.c[1].h, down = j->f.vmax / j->f.c[1].v;
    const uint8_t *chroma[2];
    const uint16_t *sums[2];
    for (int i = 0; i < 2; i++) {
        const uint8_t *near = sample_row(j, 1 + i, y / down), *far = down == 1 ? near : sample_row(j, 1 + i, far_row(j, y));
        chroma[i] = near;
        if (across == 2) {
            sums[i] = sum_row(j, i, near, far);
        } else if (across == 4) {
            for (int x = v->x; x < v->x + v->w; x++)
                j->filtered[i][x] = near[x / 4];
            chroma[i] = j->filtered[i];
        } else if (down == 2) {
            const int round = y % 2 ? 2 : 1;
            for (int x = v->x; x < v->x + v->w; x++)
                j->filtered[i][x] = (uint8_t)((3 * near[x] + far[x] + round) >> 2);
            chroma[i] = j->filtered[i];
        }
    }
    if (across == 2) {
        const int x = v->x & ~1;
        j->kernel->wide(to, luma + x, sums[0] + x / 2, sums[1] + x / 2, v->x & 1, v->w, down == 2 ? 8 : 4, down == 2 ? 7 : 8);
    } else if (j->f.rgb) {
        rgb_row(to, luma + v->x, chroma[0] + v->x, chroma[1] + v->x, v->w);
    } else {
        j->kernel->full(to, luma + v->x, chroma[0] + v->x, chroma[1] + v->x, v->w);
    }
}

/* deliver makes the wanted rows from y up to end. */
static void deliver(job *j, int y, int end)
{
    const bfs_view *v = &j->view;
    y = y > v->y ? y : v->y;
    end = end < v->y + v->h ? end : v->y + v->h;
    if (v->dx == v->channels) {
        for (; y < end; y++)
            make_row(j, j->to + (y - v->y) * v->dy, y);
        return;
    }
    const size_t stride = (size_t)v->w * v->channels;
    while (y < end) {
        const int n = end - y < BFS_STRIP ? end - y : BFS_STRIP;
        for (int i = 0; i < n; i++)
            make_row(j, j->strip + i * stride, y + i);
        bfs_place(j->to + (y - v->y) * v->dy, v->dx, v->dy, v->channels, j->strip, stride, v->w, n);
        y += n;
    }
}

/* plan finds which MCUs the view needs. Filtering takes a sample beside each; libjpeg also reads
 * whole pairs of rows before it filters, and errors must be found in the same rows. */
static int plan(job *j)
{
    const bfs_frame *f = &j->f;
    const bfs_view *v = &j->view;
    if (f->width != v->width || f->height != v->height)
        return BFS_LEFT_HEADER;
    const int colour = f->components == 3;
    if (v->scale != 1 || (f->rgb && v->channels == 1))
        return BFS_LEFT_SCALE;
    const int across = colour && f->hmax / f->c[1].h == 2, down = colour && f->vmax / f->c[1].v == 2;
    if (f->rgb && (f->hmax != f->c[1].h || f->vmax != f->c[1].v))
        return BFS_LEFT_SAMPLING;
    int last = v->y + v->h - 1;
    last = down ? (last | 1) + 1 : last;
    last = last < f->height ? last : f->height - 1;
    int right = v->x + v->w - 1 + across;
    right = right < f->width ? right : f->width - 1;
    j->first_row = (v->y > down ? v->y - down : 0) / (8 * f->vmax);
    j->last_row = last / (8 * f->vmax);
    j->first_mcu = (v->x > across ? v->x - across : 0) / (8 * f->hmax);
    j->last_mcu = right / (8 * f->hmax);
    return BFS_OK;
}

/* find_tables finds what decodes each block, and puts the quantization tables into natural order. */
static int find_tables(job *j, bfs_table *held[BFS_TABLES])
{
    const bfs_frame *f = &j->f;
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
        for (int k = 0; k < 64; k++)
            j->quant[i].by[bfs_natural[k]] = (int16_t)f->quant[c->quant][k];
        for (int k = 0; k < 8; k++) {
            const int q = (uint16_t)j->quant[i].by[k];
            j->quant[i].limit[k] = (uint16_t)(q ? 8191 / q : INT16_MAX);
        }
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

/* row_bytes is the memory of a row of a component. Kernels write up to 24 samples past its end. */
static size_t row_bytes(size_t samples) { return (samples + 24 + 63) & ~(size_t)63; }

/* filtered_bytes is that of a row of filtered chroma, or of sums for half as many samples. */
static size_t filtered_bytes(size_t samples) { return row_bytes(samples) + 64 + BFS_PAD; }

enum { FIXED = BFS_WINDOW + 4 * 128 };

/* bfs_baseline_most is the most memory that images of a width take. Components have 17 rows of
 * samples at most; a row of MCUs has at most 96 bytes of coefficients per column. */
size_t bfs_baseline_most(int width)
{
    const size_t columns = (size_t)width + 31;
    return BFS_TABLES * sizeof(bfs_table) + FIXED + BFS_WINDOW + (2 * 96 + 3 * BFS_STRIP) * columns + 3 * 17 * row_bytes(columns) +
           2 * filtered_bytes(columns);
}

/* lay_out gives each part its memory. */
static int lay_out(job *j, bfs_kept *k)
{
    const bfs_frame *f = &j->f;
    const size_t columns = (size_t)f->across * 8, filtered = filtered_bytes(columns * f->hmax), coefficients = (size_t)f->across * f->blocks * 128;
    const int scans = j->entries.given ? 2 : 1;
    size_t size = FIXED + (scans - 1) * BFS_WINDOW + scans * coefficients + 2 * filtered;
    if (j->view.dx != j->view.channels)
        size += (size_t)j->view.w * j->view.channels * BFS_STRIP;
    for (int i = 0; i < f->components; i++)
        size += row_bytes(columns * f->c[i].h) * (8 * f->c[i].v + 1);
    uint8_t *p = bfs_grow(k, size);
    if (!p)
        return BFS_MEMORY;
    p += -(uintptr_t)p & 127; /* for blocks and for vectors; the rows follow in whole cache lines */
    for (int i = 0; i < scans; i++, p += coefficients)
        j->coefficients[i] = (int16_t *)p;
    for (int i = 0; i < f->components; i++) {
        const size_t row = row_bytes(columns * f->c[i].h);
        j->plane[i] = p + row;
        j->stride[i] = (ptrdiff_t)row;
        p += row * (8 * f->c[i].v + 1);
    }
    for (int i = 0; i < 2; i++, p += filtered)
        j->filtered[i] = p + 64;
    for (int i = 0; i < scans; i++, p += BFS_WINDOW)
        j->scan[i].window = p;
    j->strip = p;
    return BFS_OK;
}

/* show makes what is wanted of a row of MCUs. */
static int show(job *j, int row, const int16_t *coefficients)
{
    const bfs_frame *f = &j->f;
    const int height = 8 * f->vmax, late = f->components == 3 && f->vmax > f->c[1].v;
    j->row = row;
    if (transform(j, coefficients) != BFS_OK)
        return BFS_LEFT_DATA;
    /* The last row of pixels needs chroma from the next row of MCUs. */
    deliver(j, row * height - (row > j->first_row ? late : 0), row < f->down - 1 ? (row + 1) * height - late : f->height);
    if (late)
        keep_last(j);
    return BFS_OK;
}

/* A row of MCUs takes across * blocks * 128 bytes of coefficients. clear makes the needed ones zeros. */
static int16_t *clear(const job *j, int16_t *row)
{
    const size_t mcu = (size_t)j->f.blocks * 64;
    int16_t *const needed = row + j->first_mcu * mcu;
    memset(needed, 0, (size_t)(j->last_mcu + 1 - j->first_mcu) * mcu * sizeof *needed);
    return needed;
}

/* decode_all reads the scan from its beginning. Of the rows above the region, only the bits that
 * they take and the DC coefficients are of interest. */
static int decode_all(job *j)
{
    bfs_scan *s = j->scan;
    int result = BFS_OK;
    for (int row = 0; result == BFS_OK && row <= j->last_row; row++) {
        if (row >= j->first_row)
            clear(j, j->coefficients[0]);
        bfs_scan_want(s, j->coefficients[0], j->f.across);
        result = bfs_scan_go(s);
        if (result == BFS_OK && row >= j->first_row)
            result = show(j, row, j->coefficients[0]);
    }
    return result == BFS_OK ? bfs_scan_end(s) : result;
}

/* begin_row goes to the needed MCUs of a row. */
static int begin_row(job *j, int i, int row)
{
    bfs_scan *s = &j->scan[i];
    const int first = row * j->f.across, n = j->last_mcu + 1 - j->first_mcu;
    const int result = bfs_scan_seek(s, first + j->first_mcu, first + j->last_mcu + 1, j->coefficients[i], j->f.across);
    bfs_scan_want(s, clear(j, j->coefficients[i]), n);
    return result;
}

/* decode_entered reads the needed MCUs of each row, from entry points. Two scans take turns. */
static int decode_entered(job *j)
{
    const int first = j->first_row, last = j->last_row;
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

/* read_on decodes the rest of the image for its entry points, and reports whether it has them. */
static int read_on(job *j)
{
    const int total = j->f.across * j->f.down;
    bfs_scan *s = j->scan;
    int result = BFS_OK, partial = s->mcu < total;
    while (result == BFS_OK && s->mcu < total) {
        bfs_scan_want(s, j->coefficients[0], j->f.across);
        result = bfs_scan_go(s);
    }
    if (result == BFS_OK && partial)
        result = bfs_scan_end(s);
    return result == BFS_OK && !s->entries.failed;
}

/* place_entries counts the image's entry points, and finds memory for those to be made. */
static int place_entries(job *j, bfs_kept *k)
{
    bfs_entries *e = &j->entries;
    const int total = j->f.across * j->f.down, given = e->count;
    if (!e->every)
        return BFS_OK;
    if (e->every < 0)
        e->every = j->f.across;
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

static const bfs_kernel *const kernels[] = {
    [BFS_PORTABLE] = &bfs_baseline_portable,
#if defined(__x86_64__)
    [BFS_AVX2] = &bfs_baseline_avx2,
    [BFS_AVX512] = &bfs_baseline_avx512,
#endif
};

/* bfs_baseline_runs reports whether this processor has an implementation. */
int bfs_baseline_runs(int kernel)
{
    switch (kernel) {
    case BFS_PORTABLE:
        return 1;
#if defined(__x86_64__)
    case BFS_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    case BFS_AVX512:
        return bfs_baseline_runs(BFS_AVX2) && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vbmi");
#endif
    }
    return 0;
}

/* need finds which bytes besides the header are read from given entry points. */
static bfs_part need(const job *j, const uint8_t *data, size_t size)
{
    const bfs_part scan = {(size_t)(j->f.scan - data), size};
    return bfs_entries_need(&j->entries, scan, j->first_row * j->f.across + j->first_mcu, j->last_row * j->f.across + j->last_mcu + 1);
}

/* bfs_baseline_need finds which part of a file, besides the header, is read from given entry points;
 * none if it is not clear that this will do. The file's first bytes are shown. */
bfs_part bfs_baseline_need(const uint8_t *head, size_t shown, size_t size, bfs_view view, bfs_entries entries)
{
    job j = {.view = view, .entries = entries};
    if (bfs_frame_read(&j.f, head, shown) != BFS_OK || plan(&j) != BFS_OK || place_entries(&j, NULL) != BFS_OK)
        return (bfs_part){0};
    return need(&j, head, size);
}

/* set_end puts what follows the part of the file that is there out of reach. */
static int set_end(job *j, const uint8_t *data, size_t *size)
{
    const bfs_part there = j->entries.part;
    if (!there.to)
        return BFS_OK;
    const bfs_part needed = need(j, data, *size);
    *size = there.to;
    return needed.from >= there.from && needed.to <= there.to ? BFS_OK : BFS_LEFT_DATA;
}

static int attempt(job *j, bfs_kept *k, const uint8_t *data, size_t size)
{
    int result = bfs_frame_read(&j->f, data, size);
    if (result == BFS_OK)
        result = plan(j);
    if (result == BFS_OK)
        result = place_entries(j, k);
    if (result == BFS_OK)
        result = set_end(j, data, &size);
    if (result == BFS_OK)
        result = lay_out(j, k);
    if (result == BFS_OK)
        result = find_tables(j, k->tables);
    if (result == BFS_MEMORY)
        bfs_fail(k, BFS_MEMORY, "No memory for tables and a row of blocks");
    if (result != BFS_OK)
        return result;
    for (int i = 0; i < (j->entries.given ? 2 : 1); i++) {
        bfs_scan *s = &j->scan[i];
        s->frame = &j->f;
        s->entropy = j->entropy;
        s->together = j->together;
        s->first = j->first;
        s->phase = j->phase;
        s->file = data;
        s->file_end = data + size;
        s->entries = j->entries;
        bfs_scan_start(s);
    }
    return j->entries.given ? decode_entered(j) : decode_all(j);
}

/* bfs_baseline_decode returns BFS_OK, BFS_MEMORY, or why it leaves the image to libjpeg; the
 * destination's contents are then undefined. If only a part of the file is there, it returns BFS_PART
 * instead, as nothing else can be made of that. The given entry points are used, and made if there
 * are none; see bfs_kept for what becomes of them. */
int bfs_baseline_decode(bfs_kept *k, int kernel, const uint8_t *data, size_t size, uint8_t *to, bfs_view view, bfs_entries entries)
{
    job j = {.view = view, .to = to, .kernel = kernels[kernel], .entropy = bfs_entropy_portable, .together = bfs_entropies_portable, .entries = entries};
#if defined(__x86_64__)
    if (kernel >= BFS_AVX2) {
        j.entropy = bfs_entropy_bmi2;
        j.together = bfs_entropies_bmi2;
    }
#endif
    int result = attempt(&j, k, data, size);
    if (entries.part.to && result != BFS_OK && result != BFS_MEMORY) {
        k->entries = BFS_ENTRIES_UNUSED;
        return bfs_fail(k, BFS_PART, "the part that was read does not suffice");
    }
    if (entries.given && result == BFS_LEFT_DATA) {
        result = bfs_baseline_decode(k, kernel, data, size, to, view, (bfs_entries){0});
        k->entries = BFS_ENTRIES_WRONG;
        return result;
    }
    if (result != BFS_MEMORY)
        k->jpegs[result == BFS_OK ? 0 : result - BFS_LEFT_KIND + 1]++;
    k->entries = BFS_ENTRIES_UNUSED;
    if (entries.given)
        k->entries = result == BFS_OK ? BFS_ENTRIES_USED : BFS_ENTRIES_UNUSED;
    else if (entries.every && result != BFS_MEMORY && result != BFS_LEFT_SCALE)
        k->entries = result == BFS_OK && j.entries.count && read_on(&j) ? BFS_ENTRIES_MADE : BFS_ENTRIES_NONE;
    return result;
}
