//go:build cgo

#include "bfs_baseline.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    SLICE = 24,                       /* blocks decoded per call, at most */
    LEAD = 8,                         /* bytes before the unread ones that may be read again */
    AFTER = SLICE * BFS_WORST + 64,   /* bytes after the last that a slice can read */
    WINDOW = 2 * SLICE * BFS_WORST,   /* bytes without stuffing that are kept ahead */
};

enum { RST0 = 0xd0, EOI = 0xd9 };

typedef struct {
    bfs_frame f;
    bfs_view view;
    uint8_t *to;
    const bfs_kernel *kernel;
    bfs_entropy *entropy;
    const bfs_table *dc[3], *ac[3];
    bfs_quant quant[3];

    const uint8_t *raw, *raw_end; /* compressed data not yet in the window */
    uint8_t *window, *end;        /* the window and the end of its data */
    int ended;                    /* the data up to the next marker, or the file's end, is in it */
    int left, restarts;           /* MCUs until the next restart marker; markers so far */
    int32_t predicted[3];
    bfs_stream stream;
    bfs_phase phase[SLICE + 1];

    int first_row, last_row, first_mcu, last_mcu; /* MCUs needed */
    int16_t *coefficients;        /* of a row of MCUs */
    int row;                      /* of MCUs */
    uint8_t *plane[3];            /* its samples; before them, the last row of those above */
    ptrdiff_t stride[3];
    uint8_t *filtered[2];         /* a row of chroma, or of sums */
    uint8_t *strip;               /* rows that cannot be decoded in place, if there are any */
} job;

/* destuff copies up to n bytes of entropy-coded data without the zeros that follow 0xff, and stops
 * at a marker. It may write 16 bytes more. */
static void destuff(job *j, size_t n)
{
    const uint8_t *from = j->raw, *const last = j->raw_end;
    uint8_t *to = j->end, *const full = to + n;
    while (to < full) {
#if defined(__SSE2__)
        if (last - from > 17) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *)from);
            const unsigned found = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(-1)));
            _mm_storeu_si128((__m128i *)to, bytes);
            const int plain = found ? __builtin_ctz(found) : 16;
            from += plain;
            to += plain;
            if (plain == 16)
                continue;
        }
#endif
        if (from == last || (*from == 0xff && (last - from < 2 || from[1] != 0))) {
            j->ended = 1;
            break;
        }
        *to++ = *from;
        from += 1 + (*from == 0xff);
    }
    j->raw = from;
    j->end = to;
}

/* fill moves what is unread to the window's beginning and fills up the rest. */
static void fill(job *j)
{
    uint8_t *const begin = j->window + LEAD;
    const size_t kept = (size_t)(j->end - j->stream.from);
    memmove(j->window, j->stream.from - LEAD, LEAD + kept);
    j->stream.from = begin;
    j->end = begin + kept;
    destuff(j, WINDOW - kept);
}

/* unread is how many bits are left in the window; less than 0 if too many were read. */
static ptrdiff_t unread(const job *j) { return (j->end - j->stream.from) * 8 + (ptrdiff_t)(j->stream.count & 63); }

static void start_interval(job *j)
{
    j->left = j->f.interval ? j->f.interval : INT_MAX;
    j->ended = 0;
    j->end = j->window + LEAD;
    memset(j->predicted, 0, sizeof j->predicted);
    j->stream.from = j->end;
    j->stream.count = j->stream.bits = 0;
    destuff(j, WINDOW);
}

/* end_interval checks that nothing but padding is left, up to a marker. */
static int end_interval(job *j, int marker)
{
    if (!j->ended)
        fill(j);
    const ptrdiff_t rest = unread(j);
    if (!j->ended || rest < 0 || rest > 7 || j->raw_end - j->raw < 2 || j->raw[1] != marker)
        return BFS_LEFT_DATA;
    j->raw += 2;
    return BFS_OK;
}

/* add_up turns differences of DC coefficients into coefficients. */
static int add_up(job *j, int16_t *blocks, int mcus)
{
    int beyond = 0;
    for (int i = 0; i < j->f.components; i++) {
        const bfs_component *c = &j->f.c[i];
        int32_t dc = j->predicted[i];
        for (int m = 0; m < mcus; m++) {
            int16_t *p = blocks + ((size_t)m * j->f.blocks + c->first) * 64;
            for (int k = c->h * c->v; k > 0; k--, p += 64) {
                dc += *p;
                *p = (int16_t)dc;
                beyond |= dc != (int16_t)dc;
            }
        }
        j->predicted[i] = dc;
    }
    return beyond ? BFS_LEFT_DATA : BFS_OK;
}

/* read_mcus decodes the next n MCUs. */
static int read_mcus(job *j, int16_t *to, int n)
{
    const int most = SLICE / j->f.blocks;
    while (n > 0) {
        if (j->left == 0) {
            const int result = end_interval(j, RST0 + (j->restarts++ & 7));
            if (result != BFS_OK)
                return result;
            start_interval(j);
        }
        int now = n < most ? n : most;
        now = now < j->left ? now : j->left;
        const int blocks = now * j->f.blocks;
        if (!j->ended && j->end - j->stream.from < blocks * BFS_WORST + LEAD)
            fill(j);
        j->stream.at = (uint8_t *)to;
        j->stream.phase = j->phase;
        j->stream.table = j->dc[0];
        if (!j->entropy(&j->stream, j->phase + blocks) || unread(j) < 0)
            return BFS_LEFT_DATA;
        const int result = add_up(j, to, now);
        if (result != BFS_OK)
            return result;
        to += (size_t)blocks * 64;
        n -= now;
        j->left -= now;
    }
    return BFS_OK;
}

/* sample_row is row y of component i. */
static uint8_t *sample_row(const job *j, int i, int y) { return j->plane[i] + (y - j->row * 8 * j->f.c[i].v) * j->stride[i]; }

/* keep_last keeps what the next row of MCUs needs of this one. */
static void keep_last(job *j)
{
    for (int i = 0; i < j->f.components; i++)
        memcpy(j->plane[i] - j->stride[i], j->plane[i] + (8 * j->f.c[i].v - 1) * j->stride[i], j->stride[i]);
}

/* transform makes samples of the needed MCUs of the row. */
static int transform(job *j)
{
    int certain = 1;
    const int components = j->view.channels == 1 ? 1 : j->f.components;
    const int n = j->last_mcu - j->first_mcu + 1;
    const ptrdiff_t step = j->f.blocks * 64;
    for (int i = 0; i < components; i++) {
        const bfs_component *c = &j->f.c[i];
        for (int v = 0; v < c->v; v++)
            certain &= j->kernel->idct(j->coefficients + j->first_mcu * step + (c->first + v * c->h) * 64, n * c->h, c->h, step, &j->quant[i],
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
    bfs_frame *f = &j->f;
    for (int i = 0; i < f->components; i++) {
        const bfs_component *c = &f->c[i];
        int result = bfs_tables_find(held, f->code[0][c->dc], 0);
        if (result != BFS_OK)
            return result;
        j->dc[i] = held[0];
        result = bfs_tables_find(held, f->code[1][c->ac], 1);
        if (result != BFS_OK)
            return result;
        j->ac[i] = held[0];
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
    const int n = SLICE / f->blocks * f->blocks;
    for (int i = 0; i <= n; i++)
        j->phase[i] = (bfs_phase){j->ac[of[i % f->blocks]], j->dc[of[(i + 1) % f->blocks]]};
    return BFS_OK;
}

/* row_bytes is the memory of a row of a component. Kernels write up to 24 samples past its end. */
static size_t row_bytes(size_t samples) { return (samples + 24 + 63) & ~(size_t)63; }

/* filtered_bytes is that of a row of filtered chroma, or of sums for half as many samples. */
static size_t filtered_bytes(size_t samples) { return row_bytes(samples) + 64 + BFS_PAD; }

enum { FIXED = LEAD + WINDOW + AFTER + 4 * 128 };

/* bfs_baseline_most is the most memory that images of a width take. Components have 17 rows of
 * samples at most; a row of MCUs has at most 96 bytes of coefficients per column. */
size_t bfs_baseline_most(int width)
{
    const size_t columns = (size_t)width + 31;
    return BFS_TABLES * sizeof(bfs_table) + FIXED + (96 + 3 * BFS_STRIP) * columns + 3 * 17 * row_bytes(columns) + 2 * filtered_bytes(columns);
}

/* lay_out gives each part its memory. */
static int lay_out(job *j, bfs_kept *k)
{
    const bfs_frame *f = &j->f;
    const size_t columns = (size_t)f->across * 8, filtered = filtered_bytes(columns * f->hmax), coefficients = (size_t)f->across * f->blocks * 128;
    size_t size = FIXED + coefficients + 2 * filtered;
    if (j->view.dx != j->view.channels)
        size += (size_t)j->view.w * j->view.channels * BFS_STRIP;
    for (int i = 0; i < f->components; i++)
        size += row_bytes(columns * f->c[i].h) * (8 * f->c[i].v + 1);
    uint8_t *p = bfs_grow(k, size);
    if (!p)
        return BFS_MEMORY;
    p += -(uintptr_t)p & 127; /* for blocks and for vectors; the rows follow in whole cache lines */
    j->coefficients = (int16_t *)p;
    p += coefficients;
    for (int i = 0; i < f->components; i++) {
        const size_t row = row_bytes(columns * f->c[i].h);
        j->plane[i] = p + row;
        j->stride[i] = (ptrdiff_t)row;
        p += row * (8 * f->c[i].v + 1);
    }
    for (int i = 0; i < 2; i++, p += filtered)
        j->filtered[i] = p + 64;
    j->window = p;
    j->strip = p + LEAD + WINDOW + AFTER;
    return BFS_OK;
}

/* decode reads the scan row by row. What is above the region is read for its DC coefficients and
 * the bits it takes. */
static int decode(job *j)
{
    const bfs_frame *f = &j->f;
    const int height = 8 * f->vmax, late = f->components == 3 && f->vmax > f->c[1].v;
    start_interval(j);
    for (j->row = 0; j->row <= j->last_row; j->row++) {
        const int needed = j->row >= j->first_row;
        if (needed)
            memset(j->coefficients, 0, (size_t)f->across * f->blocks * 128);
        int result = read_mcus(j, j->coefficients, f->across);
        if (result == BFS_OK && needed)
            result = transform(j);
        if (result != BFS_OK)
            return result;
        if (!needed)
            continue;
        /* The last row of pixels needs chroma from the next row of MCUs. */
        deliver(j, j->row * height - (j->row > j->first_row ? late : 0), j->row < f->down - 1 ? (j->row + 1) * height - late : f->height);
        if (late)
            keep_last(j);
    }
    if (j->last_row == f->down - 1)
        return end_interval(j, EOI);
    return bfs_jpeg_ends(j->raw, (size_t)(j->raw_end - j->raw)) ? BFS_OK : BFS_LEFT_DATA;
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

static int attempt(job *j, bfs_kept *k, const uint8_t *data, size_t size)
{
    int result = bfs_frame_read(&j->f, data, size);
    if (result == BFS_OK)
        result = plan(j);
    if (result == BFS_OK)
        result = lay_out(j, k);
    if (result == BFS_OK)
        result = find_tables(j, k->tables);
    if (result == BFS_MEMORY)
        bfs_fail(k, BFS_MEMORY, "No memory for tables and a row of blocks");
    if (result != BFS_OK)
        return result;
    j->raw = j->f.scan;
    j->raw_end = data + size;
    return decode(j);
}

/* bfs_baseline_decode returns BFS_OK, BFS_MEMORY, or why it leaves the image to libjpeg; the
 * destination's contents are then undefined. */
int bfs_baseline_decode(bfs_kept *k, int kernel, const uint8_t *data, size_t size, uint8_t *to, bfs_view view)
{
    job j = {.view = view, .to = to, .kernel = kernels[kernel], .entropy = bfs_entropy_portable};
#if defined(__x86_64__)
    if (kernel >= BFS_AVX2)
        j.entropy = bfs_entropy_bmi2;
#endif
    const int result = attempt(&j, k, data, size);
    if (result != BFS_MEMORY)
        k->jpegs[result == BFS_OK ? 0 : result - BFS_LEFT_KIND + 1]++;
    return result;
}
