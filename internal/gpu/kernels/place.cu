/* From pixels to slots of a batch, in one pass: they are cropped, resized, mirrored, turned upright
 * and normalised, in the batch's type and order of axes. All arithmetic is on whole numbers, from
 * resample's weights and layout's tables, so the bytes are the same as the processor's. */
#include "batch.h"

typedef struct {
    const bfs_batch *b;
    const bfs_sample *s;
    const uint8_t *pix;
    const uint32_t *elements;
    uint8_t *slot;
} placing;

BFS_INLINE void put(const placing *p, int y, int x, int c, int v)
{
    const bfs_batch *b = p->b;
    const uint32_t e = p->elements[c * 256 + v];
    const int64_t at = b->planar ? ((int64_t)c * b->slot_height + y) * b->slot_width + x
                                 : ((int64_t)y * b->slot_width + x) * b->channels + c;
    if (b->size == 1)
        p->slot[at] = (uint8_t)e;
    else if (b->size == 2)
        ((uint16_t *)p->slot)[at] = (uint16_t)e;
    else
        ((uint32_t *)p->slot)[at] = e;
}

/* Which of n columns and of the channels value i is: neighbouring threads write neighbouring elements. */
BFS_INLINE int channel_of(const bfs_batch *b, int i, int n) { return b->planar ? i / n : i % b->channels; }
BFS_INLINE int column_of(const bfs_batch *b, int i, int n) { return b->planar ? i % n : i / b->channels; }

BFS_INLINE void copy(const placing *p, int y, int from, int end)
{
    const bfs_sample *s = p->s;
    const int n = end - from;
    EACH(i, n * p->b->channels)
    {
        const int c = channel_of(p->b, i, n), x = from + column_of(p->b, i, n);
        put(p, y, s->flip ? s->width - 1 - x : x, c, p->pix[y * s->dy + x * s->dx + c * s->dc]);
    }
}

/* resize makes columns [from, end) of row y. line has the rows' weighted sums of all columns that these
 * need. */
BFS_INLINE void resize(const placing *p, int16_t *line, int y, int from, int end)
{
    const bfs_sample *s = p->s;
    const uint8_t *staging = p->b->staging;
    const int32_t *at = (const int32_t *)(staging + s->at_x);
    const int16_t *down = (const int16_t *)(staging + s->weights_y) + (int64_t)y * s->taps_y;
    const int taps = s->taps_y < s->rows ? s->taps_y : s->rows; /* others have no weight */
    const int channels = p->b->channels, first = at[from], columns = at[end - 1] + s->taps_x - first;
    const int n = end - from;
    const uint8_t *top = p->pix + ((const int32_t *)(staging + s->at_y))[y] * s->dy + first * s->dx;

    EACH(i, columns * channels)
    {
        const int x = i / channels, c = i - x * channels;
        int32_t sum = 0;
        if (first + x < s->columns) {
            const uint8_t *from_pixel = top + x * s->dx + c * s->dc;
            sum = 1 << (s->shift_y - 1);
            for (int t = 0; t < taps; t++)
                sum += down[t] * from_pixel[t * s->dy];
        }
        line[i] = (int16_t)(sum >> s->shift_y);
    }
    SYNC();
    EACH(i, n * channels)
    {
        const int c = channel_of(p->b, i, n), x = from + column_of(p->b, i, n);
        const int16_t *across = (const int16_t *)(staging + s->weights_x) + (int64_t)x * s->taps_x;
        const int16_t *values = line + (at[x] - first) * channels + c;
        int32_t sum = 1 << (s->shift_x - 1);
        for (int t = 0; t < s->taps_x; t++)
            sum += across[t] * values[t * channels];
        put(p, y, s->flip ? s->width - 1 - x : x, c, (uint8_t)(sum >> s->shift_x));
    }
    SYNC(); /* the next row uses the same line */
}

/* Blocks: tiles of columns, rows of the slots, samples. Shared memory: 2 bytes for each value of the
 * source pixels that a tile needs. */
KERNEL(128) bfs_place(const bfs_batch *b)
{
    SHARED(int16_t, line);
    const int from = (int)BX * b->tile, to = from + b->tile < b->slot_width ? from + b->tile : b->slot_width;

    for (int n = (int)BZ; n < b->count; n += (int)GZ) {
        const bfs_sample *s = (const bfs_sample *)(b->staging + b->samples) + n;
        const placing p = {b, s, (s->decoded ? b->work : b->staging) + s->pix, (const uint32_t *)(b->staging + b->elements), b->slots + s->slot};
        for (int y = (int)BY; y < b->slot_height; y += (int)GY) {
            const int width = y < s->height ? s->width : 0, end = to < width ? to : width;
            if (from < end && s->copies)
                copy(&p, y, from, end);
            else if (from < end)
                resize(&p, line, y, from, end);
            const int left = from > width ? from : width;
            EACH(i, (to - left) * b->channels)
                put(&p, y, left + i / b->channels, i % b->channels, b->fill);
        }
    }
}
