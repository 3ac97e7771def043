//go:build cgo

#include "bfs_baseline.h"

#include <string.h>

/* sample_row returns row y of component i. */
static uint8_t *sample_row(const bfs_picture *p, int i, int y) { return p->plane[i] + (y - p->row * p->c[i].side * p->f.c[i].v) * p->stride[i]; }

/* keep_last keeps what the next row of MCUs needs of this one. */
static void keep_last(bfs_picture *p)
{
    for (int i = 0; i < p->f.components; i++)
        memcpy(p->plane[i] - p->stride[i], p->plane[i] + (p->c[i].side * p->f.c[i].v - 1) * p->stride[i], p->stride[i]);
}

/* transform makes the samples of the row's needed MCUs. It returns 0 if a coefficient is too
 * large. */
static int transform(bfs_picture *p, const bfs_blocks blocks[3])
{
    int certain = 1;
    const int components = p->view.channels == 1 && !p->f.rgb ? 1 : p->f.components;
    const int n = p->last_mcu - p->first_mcu + 1;
    for (int i = 0; i < components; i++) {
        const bfs_component *c = &p->f.c[i];
        const bfs_scaled *s = &p->c[i];
        const bfs_blocks *b = &blocks[i];
        for (int v = 0; v < c->v; v++)
            certain &= p->kernel->idct[s->log](b->at + v * b->down, n * c->h, b->group, b->step, &p->quant[i],
                                               p->plane[i] + v * s->side * p->stride[i] + p->first_mcu * s->side * c->h, p->stride[i]);
    }
    return certain;
}

/* sum_row makes the sums for row y of chroma with half the width, from near and far, the rows of
 * chroma on either side. */
static uint16_t *sum_row(bfs_picture *p, int i, const uint8_t *near, const uint8_t *far)
{
    const bfs_view *v = &p->view;
    const int width = p->c[1].width;
    const int from = v->x / 2 > 0 ? v->x / 2 - 1 : 0, wanted = (v->x + v->w - 1) / 2 + 2, to = wanted < width ? wanted : width;
    uint16_t *sums = (uint16_t *)p->filtered[i];
    p->kernel->sum(sums + from, near + from, far + from, to - from);
    if (from == 0)
        sums[-1] = sums[0];
    if (to == width)
        sums[width] = sums[width - 1];
    return sums;
}

/* far_row is the farther row of chroma for row y, for chroma with half the height. */
static int far_row(const bfs_picture *p, int y)
{
    const int far = y % 2 ? y / 2 + 1 : y / 2 - 1, last = p->c[1].height - 1;
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
static void make_row(bfs_picture *p, uint8_t *to, int y)
{
    const bfs_view *v = &p->view;
    const uint8_t *luma = sample_row(p, 0, y);
    if (p->f.rgb && v->channels == 1) {
        const uint8_t *g = sample_row(p, 1, y), *b = sample_row(p, 2, y);
        for (int i = v->x; i < v->x + v->w; i++)
            to[i - v->x] = bfs_luma(luma[i], g[i], b[i]);
        return;
    }
    if (v->channels == 1 || p->f.components == 1) {
        gray_row(to, luma + v->x, v->w, v->channels);
        return;
    }
    const int across = p->across, down = p->down, filters_down = p->filters && down == 2;
    const uint8_t *chroma[2];
    const uint16_t *sums[2];
    for (int i = 0; i < 2; i++) {
        const uint8_t *near = sample_row(p, 1 + i, y / down), *far = filters_down ? sample_row(p, 1 + i, far_row(p, y)) : near;
        chroma[i] = near;
        if (across == 2 && p->filters) {
            sums[i] = sum_row(p, i, near, far);
        } else if (across > 1) {
            for (int x = v->x; x < v->x + v->w; x++)
                p->filtered[i][x] = near[x / across];
            chroma[i] = p->filtered[i];
        } else if (filters_down) {
            const int round = y % 2 ? 2 : 1;
            for (int x = v->x; x < v->x + v->w; x++)
                p->filtered[i][x] = (uint8_t)((3 * near[x] + far[x] + round) >> 2);
            chroma[i] = p->filtered[i];
        }
    }
    if (across == 2 && p->filters) {
        const int x = v->x & ~1;
        p->kernel->wide(to, luma + x, sums[0] + x / 2, sums[1] + x / 2, v->x & 1, v->w, down == 2 ? 8 : 4, down == 2 ? 7 : 8);
    } else if (p->f.rgb) {
        rgb_row(to, luma + v->x, chroma[0] + v->x, chroma[1] + v->x, v->w);
    } else {
        p->kernel->full(to, luma + v->x, chroma[0] + v->x, chroma[1] + v->x, v->w);
    }
}

/* deliver makes the wanted rows from y up to end. */
static void deliver(bfs_picture *p, int y, int end)
{
    const bfs_view *v = &p->view;
    y = y > v->y ? y : v->y;
    end = end < v->y + v->h ? end : v->y + v->h;
    if (v->dx == v->channels) {
        for (; y < end; y++)
            make_row(p, p->to + (y - v->y) * v->dy, y);
        return;
    }
    const size_t stride = (size_t)v->w * v->channels;
    while (y < end) {
        const int n = end - y < BFS_STRIP ? end - y : BFS_STRIP;
        for (int i = 0; i < n; i++)
            make_row(p, p->strip + i * stride, y + i);
        bfs_place(p->to + (y - v->y) * v->dy, v->dx, v->dy, v->channels, p->strip, stride, v->w, n);
        y += n;
    }
}

/* scale finds each component's size at the view's scale. Like libjpeg, it makes blocks of chroma
 * with half the resolution in both directions into squares of samples twice as large as luma's,
 * which need no interpolation. */
static void scale(bfs_picture *p)
{
    const bfs_frame *f = &p->f;
    const int log = 3 - __builtin_ctz((unsigned)p->view.scale);
    const bfs_component *chroma = &f->c[f->components - 1];
    p->across = f->hmax / chroma->h;
    p->down = f->vmax / chroma->v;
    const int larger = log < 3 && p->across == 2 && p->down == 2;
    for (int i = 0; i < f->components; i++) {
        const bfs_component *c = &f->c[i];
        bfs_scaled *s = &p->c[i];
        s->log = log + (i > 0 && larger);
        s->side = 1 << s->log;
        s->width = (f->width * c->h * s->side + 8 * f->hmax - 1) / (8 * f->hmax);
        s->height = (f->height * c->v * s->side + 8 * f->vmax - 1) / (8 * f->vmax);
    }
    p->height = p->c[0].height;
    p->across >>= larger;
    p->down >>= larger;
    /* libjpeg does not interpolate at 1/8, or in very narrow chroma. */
    p->filters = log > 0 && (p->across != 2 || p->c[1].width > 2);
}

/* bfs_picture_plan finds which MCUs the view needs. Filtering also takes the samples next to those.
 * libjpeg reads whole pairs of rows before it filters, and errors must be found in the same rows as
 * there. */
int bfs_picture_plan(bfs_picture *p)
{
    const bfs_frame *f = &p->f;
    const bfs_view *v = &p->view;
    if (f->width != v->width || f->height != v->height)
        return BFS_LEFT_HEADER;
    if (f->rgb && (f->hmax != f->c[1].h || f->vmax != f->c[1].v))
        return BFS_LEFT_SAMPLING;
    scale(p);
    const int side = p->c[0].side, width = p->c[0].width;
    const int across = p->filters && p->across == 2, down = p->filters && p->down == 2;
    int last = v->y + v->h - 1;
    last = down ? (last | 1) + 1 : last;
    last = last < p->height ? last : p->height - 1;
    int right = v->x + v->w - 1 + across;
    right = right < width ? right : width - 1;
    p->first_row = (v->y > down ? v->y - down : 0) / (side * f->vmax);
    p->last_row = last / (side * f->vmax);
    p->first_mcu = (v->x > across ? v->x - across : 0) / (side * f->hmax);
    p->last_mcu = right / (side * f->hmax);
    return BFS_OK;
}

/* bfs_picture_quantize prepares a component's quantization table. */
void bfs_picture_quantize(bfs_picture *p, int i)
{
    bfs_quant *q = &p->quant[i];
    for (int k = 0; k < 64; k++)
        q->by[bfs_natural[k]] = (int16_t)p->f.quant[p->f.c[i].quant][k];
    for (int k = 0; k < 8; k++) {
        const int by = (uint16_t)q->by[k];
        q->limit[k] = (uint16_t)(by ? 8191 / by : INT16_MAX);
    }
}

/* row_bytes is the memory for a row of a component. Kernels write up to 24 samples past its end. */
static size_t row_bytes(size_t samples) { return (samples + 24 + 63) & ~(size_t)63; }

/* filtered_bytes is the memory for a row of filtered chroma, or of sums for half as many samples.
 */
static size_t filtered_bytes(size_t samples) { return row_bytes(samples) + 64 + BFS_PAD; }

/* bfs_picture_most is the most memory that pictures with a given number of columns need. Components
 * have at most 17 rows of samples. */
size_t bfs_picture_most(size_t columns)
{
    return 3 * 17 * row_bytes(columns) + 2 * filtered_bytes(columns) + 3 * BFS_STRIP * columns;
}

/* columns is how many samples a row of a component's blocks has. */
static size_t columns(const bfs_picture *p, int i) { return (size_t)p->f.across * p->f.c[i].h * p->c[i].side; }

/* bfs_picture_bytes is the memory that bfs_picture_lay_out distributes. */
size_t bfs_picture_bytes(const bfs_picture *p)
{
    const bfs_frame *f = &p->f;
    size_t size = 2 * filtered_bytes(columns(p, 0));
    for (int i = 0; i < f->components; i++)
        size += row_bytes(columns(p, i)) * (p->c[i].side * f->c[i].v + 1);
    if (p->view.dx != p->view.channels)
        size += (size_t)p->view.w * p->view.channels * BFS_STRIP;
    return size;
}

/* bfs_picture_lay_out gives each part its memory, and returns the end. Rows are whole cache lines. */
uint8_t *bfs_picture_lay_out(bfs_picture *p, uint8_t *at)
{
    const bfs_frame *f = &p->f;
    const size_t filtered = filtered_bytes(columns(p, 0));
    uint8_t *const end = at + bfs_picture_bytes(p);
    for (int i = 0; i < f->components; i++) {
        const size_t row = row_bytes(columns(p, i));
        p->plane[i] = at + row;
        p->stride[i] = (ptrdiff_t)row;
        at += row * (p->c[i].side * f->c[i].v + 1);
    }
    for (int i = 0; i < 2; i++, at += filtered)
        p->filtered[i] = at + 64;
    p->strip = at;
    return end;
}

/* bfs_picture_show makes the wanted pixels of a row of MCUs; rows come in order. */
int bfs_picture_show(bfs_picture *p, int row, const bfs_blocks blocks[3])
{
    const bfs_frame *f = &p->f;
    const int height = p->c[0].side * f->vmax, late = p->filters && p->down == 2;
    p->row = row;
    if (!transform(p, blocks))
        return BFS_LEFT_DATA;
    /* The last row of pixels needs chroma from the next row of MCUs. */
    deliver(p, row * height - (row > p->first_row ? late : 0), row < f->down - 1 ? (row + 1) * height - late : p->height);
    if (late)
        keep_last(p);
    return BFS_OK;
}
