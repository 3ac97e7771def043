//go:build cgo

#include "bfs_baseline.h"

#include <string.h>

enum { SOF0 = 0xc0, SOF1 = 0xc1, SOF2 = 0xc2, DHT = 0xc4, SOF15 = 0xcf, SOI = 0xd8, EOI = 0xd9, SOS = 0xda, DQT = 0xdb, DRI = 0xdd, APP0 = 0xe0, APP14 = 0xee, APP15 = 0xef, COM = 0xfe };

/* Reads markers. jfif and adobe are known only before the first scan. */
typedef struct {
    bfs_frame *frame;
    int later;       /* the first scan is past */
    int jfif, adobe; /* adobe: 1 more than the transform it names */
} reader;

static int u16(const uint8_t *p) { return p[0] << 8 | p[1]; }

/* read_dht records where tables are defined. They are made later, when it is known which ones are
 * used. */
static int read_dht(reader *r, const uint8_t *p, size_t n)
{
    while (n > 0) {
        if (n < 17)
            return BFS_LEFT_HEADER;
        const int ac = p[0] >> 4, id = p[0] & 15;
        size_t symbols = 0;
        for (int i = 1; i <= 16; i++)
            symbols += p[i];
        if (ac > 1 || id > 3 || symbols > 256 || n < 17 + symbols)
            return BFS_LEFT_HEADER;
        r->frame->code[ac][id] = p + 1;
        p += 17 + symbols;
        n -= 17 + symbols;
    }
    return BFS_OK;
}

static int read_dqt(reader *r, const uint8_t *p, size_t n)
{
    while (n > 0) {
        const int wide = p[0] >> 4, id = p[0] & 15;
        const size_t size = wide ? 129 : 65;
        if (wide > 1 || id > 3 || n < size)
            return BFS_LEFT_HEADER;
        for (int i = 0; i < 64; i++)
            r->frame->quant[id][i] = (uint16_t)(wide ? u16(p + 1 + 2 * i) : p[1 + i]);
        r->frame->quants |= 1 << id;
        p += size;
        n -= size;
    }
    return BFS_OK;
}

/* bfs_frame_sampling checks the components' factors and derives the sizes from them. */
int bfs_frame_sampling(bfs_frame *f)
{
    f->hmax = f->c[0].h;
    f->vmax = f->c[0].v;
    for (int i = 0; i < f->components; i++) {
        bfs_component *c = &f->c[i];
        if ((c->h != 1 && c->h != 2 && c->h != 4) || (c->v != 1 && c->v != 2) || c->h > f->hmax || c->v > f->vmax)
            return BFS_LEFT_SAMPLING;
        c->first = f->blocks;
        f->blocks += c->h * c->v;
        c->width = (f->width * c->h + f->hmax - 1) / f->hmax;
        c->height = (f->height * c->v + f->vmax - 1) / f->vmax;
    }
    if (f->blocks > 10)
        return BFS_LEFT_HEADER;
    f->across = (f->width + 8 * f->hmax - 1) / (8 * f->hmax);
    f->down = (f->height + 8 * f->vmax - 1) / (8 * f->vmax);
    if (f->components == 1) /* libjpeg then reads several rows of blocks at once */
        return f->blocks == 1 ? BFS_OK : BFS_LEFT_SAMPLING;
    if (f->c[1].h != f->c[2].h || f->c[1].v != f->c[2].v)
        return BFS_LEFT_SAMPLING;
    const int across = f->hmax / f->c[1].h, down = f->vmax / f->c[1].v;
    /* libjpeg repeats very narrow chroma instead of filtering it. */
    if ((across > 2 && down > 1) || (across == 2 && f->c[1].width <= 2))
        return BFS_LEFT_SAMPLING;
    return BFS_OK;
}

static int read_frame(reader *r, const uint8_t *p, size_t n)
{
    bfs_frame *f = r->frame;
    if (f->components || n < 6 || p[0] != 8)
        return BFS_LEFT_HEADER;
    f->height = u16(p + 1);
    f->width = u16(p + 3);
    if (p[5] != 1 && p[5] != 3)
        return BFS_LEFT_KIND;
    if (n != 6 + 3 * (size_t)p[5] || !f->height || !f->width)
        return BFS_LEFT_HEADER;
    f->components = p[5];
    for (int i = 0; i < f->components; i++) {
        const uint8_t *q = p + 6 + 3 * i;
        f->c[i].id = q[0];
        f->c[i].h = q[1] >> 4;
        f->c[i].v = q[1] & 15;
        f->c[i].quant = q[2];
        if (q[2] > 3)
            return BFS_LEFT_HEADER;
        for (int k = 0; k < i; k++)
            if (f->c[k].id == f->c[i].id)
                return BFS_LEFT_HEADER;
    }
    return bfs_frame_sampling(f);
}

/* colour decides, as libjpeg does, which colour space three components are in. */
static int colour(reader *r)
{
    bfs_frame *f = r->frame;
    if (f->components == 1 || r->jfif)
        return BFS_OK;
    if (r->adobe) {
        f->rgb = r->adobe == 1;
        return r->adobe > 2 ? BFS_LEFT_HEADER : BFS_OK;
    }
    f->rgb = f->c[0].id == 'R' && f->c[1].id == 'G' && f->c[2].id == 'B';
    return BFS_OK;
}

/* read_scan accepts a scan whose components are in order and, if the image is sequential, complete.
 * Which tables a progressive scan needs depends on its kind. */
static int read_scan(reader *r, const uint8_t *p, size_t n)
{
    bfs_frame *f = r->frame;
    if (!f->components || n < 1)
        return BFS_LEFT_HEADER;
    f->count = p[0];
    if (!f->progressive && f->count != f->components)
        return BFS_LEFT_KIND;
    if (f->count < 1 || f->count > f->components || n != 4 + 2 * (size_t)f->count)
        return BFS_LEFT_HEADER;
    const uint8_t *q = p + 1;
    for (int i = 0, k = 0; i < f->count; i++, k++, q += 2) {
        while (k < f->components && f->c[k].id != q[0])
            k++;
        if (k == f->components)
            return BFS_LEFT_HEADER;
        bfs_component *c = &f->c[k];
        f->of[i] = k;
        c->dc = q[1] >> 4;
        c->ac = q[1] & 15;
        if (c->dc > 3 || c->ac > 3 || !(f->quants >> c->quant & 1))
            return BFS_LEFT_HEADER;
        if (!f->progressive && (!f->code[0][c->dc] || !f->code[1][c->ac]))
            return BFS_LEFT_HEADER;
    }
    f->first = q[0];
    f->last = q[1];
    f->high = q[2] >> 4;
    f->low = q[2] & 15;
    if (!f->progressive && (f->first != 0 || f->last != 63 || q[2] != 0))
        return BFS_LEFT_HEADER;
    return r->later ? BFS_OK : colour(r);
}

static int read_segment(reader *r, int marker, const uint8_t *p, size_t n)
{
    switch (marker) {
    case SOF0:
    case SOF1:
    case SOF2:
        r->frame->progressive = marker == SOF2;
        return read_frame(r, p, n);
    case DHT:
        return read_dht(r, p, n);
    case DQT:
        return r->later ? BFS_LEFT_HEADER : read_dqt(r, p, n);
    case DRI:
        if (n != 2)
            return BFS_LEFT_HEADER;
        r->frame->interval = u16(p);
        return BFS_OK;
    case SOS:
        return read_scan(r, p, n);
    case APP0:
        r->jfif |= n >= 14 && memcmp(p, "JFIF", 5) == 0;
        return BFS_OK;
    case APP14:
        if (n >= 12 && memcmp(p, "Adobe", 5) == 0)
            r->adobe = 1 + p[11];
        return BFS_OK;
    case COM:
        return BFS_OK;
    }
    if (marker > APP0 && marker <= APP15)
        return BFS_OK;
    return marker > SOF2 && marker <= SOF15 ? BFS_LEFT_KIND : BFS_LEFT_HEADER;
}

/* read_on reads segments up to a scan or, after a scan, up to the next one or the end of the image.
 */
static int read_on(reader *r, const uint8_t *at, const uint8_t *end)
{
    while (end - at >= 2 && at[0] == 0xff) {
        const int marker = at[1];
        if (marker == EOI && r->later) {
            r->frame->scan = NULL;
            return BFS_OK;
        }
        if (end - at < 4)
            break;
        const ptrdiff_t length = u16(at + 2);
        if (length < 2 || length > end - at - 2)
            break;
        const int result = read_segment(r, marker, at + 4, (size_t)length - 2);
        if (result != BFS_OK)
            return result;
        at += 2 + length;
        if (marker == SOS) {
            r->frame->scan = at;
            return BFS_OK;
        }
    }
    return BFS_LEFT_HEADER;
}

/* bfs_frame_read reads the markers up to the first scan. It keeps pointers into data. */
int bfs_frame_read(bfs_frame *f, const uint8_t *data, size_t size)
{
    memset(f, 0, sizeof *f);
    if (size < 4 || data[0] != 0xff || data[1] != SOI)
        return BFS_LEFT_HEADER;
    return read_on(&(reader){.frame = f}, data + 2, data + size);
}

/* bfs_frame_next reads the markers after a scan. */
int bfs_frame_next(bfs_frame *f, const uint8_t *at, const uint8_t *end) { return read_on(&(reader){.frame = f, .later = 1}, at, end); }
