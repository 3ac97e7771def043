/* Coefficients to samples, and samples to pixels, where the region needs them. */
#include "batch.h"

enum {
    GROUP = 32, /* blocks of coefficients that a block of threads transforms */
    ROW = 10,   /* values from a row of them to the next, so that columns are in different banks */
};

BFS_INLINE const bfs_packed *packed_of(const bfs_batch *b, int i)
{
    return (const bfs_packed *)(b->staging + ((const bfs_encoded *)(b->staging + b->encoded))[i].packed);
}

BFS_INLINE uint8_t *work_of(const bfs_batch *b, int i) { return b->work + ((const bfs_encoded *)(b->staging + b->encoded))[i].work; }

BFS_INLINE int stride_of(const bfs_packed *p, const bfs_component *c) { return (p->last_mcu - p->first_mcu + 1) * c->h * 8; }

/* Blocks: groups, components, JPEGs. Shared memory: 160 bytes for each block of coefficients. */
KERNEL(256) bfs_transform(const bfs_batch *b)
{
    SHARED(int16_t, rows);
    for (int n = (int)BZ; n < b->jpegs; n += (int)GZ) {
        const bfs_packed *p = packed_of(b, n);
        const bfs_component *c = &p->c[BY];
        const int components = p->channels == 1 ? 1 : p->components;
        const int stride = stride_of(p, c), across = stride / 8, total = (int)BY < components ? across * (p->last_row - p->first_row + 1) * c->v : 0;
        const int first = (int)BX * GROUP, left = total - first, blocks = left < GROUP ? left : GROUP;
        const bfs_quant *q = &p->quant[BY];
        uint8_t *w = work_of(b, n), *plane = w + p->plane[BY];

        EACH(i, blocks * 8)
        {
            const int y = (first + i / 8) / across, x = (first + i / 8) % across, column = i % 8;
            const int mcu = (p->first_row + y / c->v) * p->across + p->first_mcu + x / c->h;
            const int16_t *from = (const int16_t *)(w + p->coefficients) + ((uint64_t)mcu * (uint32_t)p->blocks + (uint32_t)(c->first + y % c->v * c->h + x % c->h)) * 64;
            const int top = from[column];
            int16_t values[8];
            if ((top < 0 ? -top : top) > q->limit[column])
                STORE(((uint32_t *)(b->work + b->verdicts))[n], 1);
            for (int k = 0; k < 8; k++)
                values[k] = (int16_t)(from[8 * k + column] * q->by[8 * k + column]);
            bfs_idct(values, values, 1, 11);
            for (int k = 0; k < 8; k++)
                rows[(i / 8 * 8 + k) * ROW + column] = values[k];
        }
        SYNC();
        EACH(i, blocks * 8)
        {
            const int y = (first + i / 8) / across * 8 + i % 8, x = (first + i / 8) % across * 8;
            int16_t values[8];
            for (int k = 0; k < 8; k++)
                values[k] = rows[i * ROW + k];
            bfs_idct(values, values, 1, 18);
            for (int k = 0; k < 8; k++)
                plane[(int64_t)y * stride + x + k] = (uint8_t)(bfs_clamp(values[k], -128, 127) + 128);
        }
        SYNC();
    }
}

/* A component's samples, by their places in the whole image. */
typedef struct {
    const uint8_t *at;
    int stride, left, top, width, height;
} samples;

BFS_INLINE samples samples_of(const bfs_packed *p, const uint8_t *work, int i)
{
    const bfs_component *c = &p->c[i];
    return (samples){work + p->plane[i], stride_of(p, c), p->first_mcu * 8 * c->h, p->first_row * 8 * c->v, c->width, c->height};
}

BFS_INLINE int sample(const samples *s, int y, int x) { return s->at[(int64_t)(y - s->top) * s->stride + (x - s->left)]; }

/* chroma interpolates a component that has one sample for across by down pixels, as libjpeg does. */
BFS_INLINE int chroma(const samples *s, int across, int down, int y, int x)
{
    const int row = y / down, beside = row + (y % 2 ? 1 : -1);
    const int far = down == 1 ? row : beside < 0 ? 0 : beside < s->height ? beside : s->height - 1;
    if (across == 1 && down == 1)
        return sample(s, row, x);
    if (across == 4)
        return sample(s, row, x / 4);
    if (across == 1)
        return (3 * sample(s, row, x) + sample(s, far, x) + (y % 2 ? 2 : 1)) >> 2;
    const int column = x / 2, next = column + (x % 2 ? 1 : -1), other = next < 0 ? 0 : next < s->width ? next : s->width - 1;
    const int here = 3 * sample(s, row, column) + sample(s, far, column), there = 3 * sample(s, row, other) + sample(s, far, other);
    return (3 * here + there + (down == 2 ? (x % 2 ? 7 : 8) : (x % 2 ? 8 : 4))) >> 4;
}

/* Blocks: -, rows, JPEGs. */
KERNEL(128) bfs_convert(const bfs_batch *b)
{
    for (int n = (int)BZ; n < b->jpegs; n += (int)GZ) {
        const bfs_packed *p = packed_of(b, n);
        uint8_t *w = work_of(b, n);
        const samples luma = samples_of(p, w, 0), blue = samples_of(p, w, 1), red = samples_of(p, w, 2);
        const int coloured = p->components == 3 && p->channels == 3;
        const int across = coloured ? p->hmax / p->c[1].h : 1, down = coloured ? p->vmax / p->c[1].v : 1;
        for (int y = (int)BY; y < p->h; y += (int)GY) {
            uint8_t *to = w + p->pixels + (int64_t)y * p->w * p->channels;
            EACH(x, p->w)
            {
                const int value = sample(&luma, p->y + y, p->x + x);
                if (!coloured) {
                    for (int k = 0; k < p->channels; k++)
                        to[x * p->channels + k] = (uint8_t)value;
                    continue;
                }
                const int u = chroma(&blue, across, down, p->y + y, p->x + x), v = chroma(&red, across, down, p->y + y, p->x + x);
                to[3 * x] = p->rgb ? (uint8_t)value : bfs_red(value, v - 128);
                to[3 * x + 1] = p->rgb ? (uint8_t)u : bfs_green(value, u - 128, v - 128);
                to[3 * x + 2] = p->rgb ? (uint8_t)v : bfs_blue(value, u - 128);
            }
        }
    }
}
