//go:build cgo && libraries

#include "bfs_png.h"

#include <spng.h>

static int rows(spng_ctx *c, uint8_t *row, size_t size, uint8_t *to, const bfs_view *v)
{
    for (int y = 0; y < v->y + v->h; y++) {
        const int e = spng_decode_row(c, row, size);
        if (e && e != SPNG_EOI)
            return 0;
        if (y >= v->y)
            bfs_place(to + (y - v->y) * v->dy, v->dx, v->dy, 3, row + (size_t)v->x * 3, 0, v->w, 1);
    }
    return 1;
}

/* In a build with the tag libraries, the fast path is libspng's; see libraries.go. */
int bfs_png_fast(bfs_kept *k, const uint8_t *data, size_t size, uint8_t *to, const bfs_view *v, int stored, int portable)
{
    (void)portable;
    if (stored || v->channels != 3)
        return 0;
    spng_ctx *c = spng_ctx_new(0);
    if (!c)
        return 0;
    const size_t stride = (size_t)v->width * 3;
    struct spng_ihdr head;
    uint8_t *row = bfs_grow(k, stride);
    const int done = row && !spng_set_png_buffer(c, data, size) && !spng_get_ihdr(c, &head) &&
                     (int64_t)head.width == v->width && (int64_t)head.height == v->height && head.bit_depth <= 8 &&
                     !head.interlace_method && !spng_decode_image(c, NULL, 0, SPNG_FMT_RGB8, SPNG_DECODE_PROGRESSIVE) &&
                     rows(c, row, stride, to, v);
    spng_ctx_free(c);
    return done;
}
