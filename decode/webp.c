//go:build cgo

#include "bfs_decode.h"

#include <errno.h>
#include <stdlib.h>

#include <webp/decode.h>

/* Chroma upsampling uses neighbouring samples, and libwebp begins lossy crops at even pixels:
 * with this margin a region has the same pixels as in the whole image. */
enum { MARGIN = 4 };

static int fail(bfs_kept *k, VP8StatusCode status)
{
    switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
        return bfs_fail(k, BFS_MEMORY, "out of memory");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return bfs_fail(k, BFS_FORMAT, "unsupported feature");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
        return bfs_fail(k, BFS_CORRUPT, "the data ends early");
    default:
        return bfs_fail(k, BFS_CORRUPT, "bitstream error");
    }
}

/* window is the range to decode in one dimension, starting at an even pixel. */
typedef struct {
    int from, n;
} window;

static window around(int at, int n, int whole)
{
    window w;
    w.from = at > MARGIN ? (at - MARGIN) & ~1 : 0;
    w.n = (whole - at - n > MARGIN ? at + n + MARGIN : whole) - w.from;
    return w;
}

static int run(bfs_kept *k, WebPDecoderConfig *c, const uint8_t *data, size_t size,
               uint8_t *to, size_t stride, int rows)
{
    c->output.colorspace = MODE_RGB;
    c->output.is_external_memory = 1;
    c->output.u.RGBA.rgba = to;
    c->output.u.RGBA.stride = (int)stride;
    c->output.u.RGBA.size = stride * (rows - 1) + (size_t)c->output.width * 3;
    /* When an allocation fails, libwebp may blame the bitstream or even report success. errno
     * is reliable: malloc sets it, and libwebp calls nothing else that does. It may also be
     * left set by an allocation that the C library satisfied elsewhere after a first failure;
     * that does not happen again on the second attempt. */
    VP8StatusCode status = VP8_STATUS_OK;
    for (int attempts = 0; attempts < 2; attempts++) {
        errno = 0;
        status = WebPDecode(data, size, c);
        WebPFreeDecBuffer(&c->output);
        if (errno != ENOMEM)
            return status == VP8_STATUS_OK ? BFS_OK : fail(k, status);
    }
    return fail(k, VP8_STATUS_OUT_OF_MEMORY);
}

/* through_scratch decodes what the region needs into our own memory, since libwebp can neither
 * turn pixels nor convert them to gray. */
static int through_scratch(bfs_kept *k, WebPDecoderConfig *c, const uint8_t *data, size_t size,
                           uint8_t *to, const bfs_view *v)
{
    const window across = around(v->x, v->w, v->width), down = around(v->y, v->h, v->height);
    if (across.n < v->width || down.n < v->height) {
        c->options.use_cropping = 1;
        c->options.crop_left = across.from;
        c->options.crop_top = down.from;
        c->options.crop_width = across.n;
        c->options.crop_height = down.n;
    }
    const size_t stride = (size_t)across.n * 3;
    uint8_t *pixels = bfs_grow(k, stride * down.n);
    if (!pixels)
        return bfs_fail(k, BFS_MEMORY, "No memory for the pixels");
    c->output.width = across.n;
    int code = run(k, c, data, size, pixels, stride, down.n);
    if (code != BFS_OK)
        return code;
    for (int y = 0; y < v->h; y += BFS_STRIP) {
        int n = v->h - y < BFS_STRIP ? v->h - y : BFS_STRIP;
        uint8_t *row = pixels + (v->y - down.from + y) * stride + (size_t)(v->x - across.from) * 3;
        for (int i = 0; i < n && v->channels == 1; i++)
            bfs_gray(row + i * stride, row + i * stride, v->w);
        bfs_place(to + y * v->dy, v->dx, v->dy, v->channels, row, stride, v->w, n);
    }
    return BFS_OK;
}

/* data is nothing but the VP8 or VP8L chunk; needs is roughly the number of bytes that libwebp will
 * allocate. */
int bfs_webp_decode(bfs_kept *k, const uint8_t *data, size_t size, size_t needs, uint8_t *to, bfs_view view)
{
    const bfs_view *v = &view;
    WebPDecoderConfig c;
    k->code = BFS_OK;
    if (!WebPInitDecoderConfig(&c))
        return bfs_fail(k, BFS_MEMORY, "libwebp cannot start");
    VP8StatusCode status = WebPGetFeatures(data, size, &c.input);
    if (status != VP8_STATUS_OK)
        return fail(k, status);
    if (c.input.width != v->width || c.input.height != v->height)
        return bfs_fail(k, BFS_MISMATCH, "libwebp reads another size");
    /* libwebp before 1.4.0 may crash when a small allocation in its lossless decoder fails: test
     * here whether there is enough memory. */
    void *there = malloc(needs);
    if (!there)
        return bfs_fail(k, BFS_MEMORY, "out of memory");
    free(there);
    const ptrdiff_t step = v->dy < 0 ? -v->dy : v->dy;
    if (v->channels != 3 || v->dx != 3 || v->w != v->width || v->h != v->height || step > INT32_MAX)
        return through_scratch(k, &c, data, size, to, v);
    c.output.width = v->w;
    c.options.flip = v->dy < 0;
    return run(k, &c, data, size, v->dy < 0 ? to + (v->h - 1) * v->dy : to, step, v->h);
}

int bfs_webp_version(void)
{
    return WebPGetDecoderVersion();
}
