//go:build cgo

#include "bfs_decode.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>
#ifndef LIBJPEG_TURBO_VERSION_NUMBER
#error "batchfs needs libjpeg-turbo: on Debian and Ubuntu, apt-get install libjpeg-turbo8-dev or libjpeg62-turbo-dev"
#endif

/* One image being decoded. The decompressor lives for one call: libjpeg keeps tables between
 * images, and would use them for images that lack tables of their own. Creating one takes
 * microseconds. */
typedef struct {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    jmp_buf jump;
    bfs_kept *kept;
} job;

static job *self(j_common_ptr c)
{
    return c->client_data;
}

static void give_up(job *j, int code, const char *text)
{
    bfs_fail(j->kept, code, text);
    longjmp(j->jump, 1);
}

/* class_of tells images that libjpeg does not support from damaged ones. */
static int class_of(int message)
{
    switch (message) {
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_J_COLORSPACE:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_COMPONENT_COUNT:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_IMAGE_TOO_BIG:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
        return BFS_FORMAT;
    case JERR_OUT_OF_MEMORY:
    case JERR_NO_BACKING_STORE:
        return BFS_MEMORY;
    }
    return BFS_CORRUPT;
}

static void on_error(j_common_ptr c)
{
    char text[JMSG_LENGTH_MAX];
    c->err->format_message(c, text);
    give_up(self(c), class_of(c->err->msg_code), text);
}

/* libjpeg only warns about damaged data, or data that ends early, and continues with a guess. Only
 * these warnings leave no doubt about the pixels. */
static void on_message(j_common_ptr c, int level)
{
    if (level >= 0)
        return;
    switch (c->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
        c->err->num_warnings++;
        return;
    }
    on_error(c);
}

static void on_output(j_common_ptr c)
{
    (void)c;
}

/* start reads the header and sets the output format. */
static void start(job *j, const bfs_view *v)
{
    j_decompress_ptr c = &j->c;
    jpeg_read_header(c, TRUE);
    if (c->image_width != (JDIMENSION)v->width || c->image_height != (JDIMENSION)v->height)
        give_up(j, BFS_MISMATCH, "libjpeg reads another size");
    switch (c->jpeg_color_space) {
    case JCS_GRAYSCALE:
    case JCS_YCbCr:
    case JCS_RGB:
        c->out_color_space = v->channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
        break;
    case JCS_CMYK:
    case JCS_YCCK:
        c->out_color_space = JCS_CMYK;
        break;
    default:
        give_up(j, BFS_FORMAT, "Unknown colour space");
    }
    c->scale_num = 1;
    c->scale_denom = v->scale;
    c->dct_method = JDCT_ISLOW;
    c->do_fancy_upsampling = TRUE;
    c->do_block_smoothing = TRUE;
    jpeg_start_decompress(c);
    if ((int64_t)v->x + v->w > c->output_width || (int64_t)v->y + v->h > c->output_height)
        give_up(j, BFS_MISMATCH, "libjpeg makes another size");
}

/* Chroma upsampling uses neighbouring samples, so the outermost columns of an image cropped by
 * libjpeg differ from those of the whole image. A margin of this many pixels on either side keeps
 * them out of the region. */
enum { MARGIN = 2 };

#if JPEG_LIB_VERSION >= 70
#define SCALED(x) (x).DCT_h_scaled_size /* the same in both directions here */
#define MIN_SCALED(c) (c)->min_DCT_h_scaled_size
#else
#define SCALED(x) (x).DCT_scaled_size
#define MIN_SCALED(c) (c)->min_DCT_scaled_size
#endif

/* can_crop reports whether libjpeg crops this image correctly. It takes the width of cropped
 * chroma from the sampling factor alone. Chroma that the inverse transform has scaled differently
 * from luma, and that still needs upsampling (4:1:1 at 1/2), would come out wrong. */
static int can_crop(j_decompress_ptr c)
{
    for (int i = 0; i < c->num_components; i++) {
        const jpeg_component_info *p = &c->comp_info[i];
        const int full = c->max_h_samp_factor * MIN_SCALED(c) == p->h_samp_factor * SCALED(*p) &&
                         c->max_v_samp_factor * MIN_SCALED(c) == p->v_samp_factor * SCALED(*p);
        if (!full && SCALED(*p) != MIN_SCALED(c))
            return 0;
    }
    return 1;
}

/* crop makes libjpeg leave out what lies left and right of the region, and returns how many
 * pixels of each row precede the region. */
static JDIMENSION crop(j_decompress_ptr c, const bfs_view *v)
{
    JDIMENSION from = v->x > MARGIN ? v->x - MARGIN : 0;
    JDIMENSION to = v->x + v->w + MARGIN;
    JDIMENSION n = (to < c->output_width ? to : c->output_width) - from;
    if (n < c->output_width && can_crop(c))
        jpeg_crop_scanline(c, &from, &n);
    else
        from = 0;
    return v->x - from;
}

static void read_rows(j_decompress_ptr c, JSAMPROW *rows, int n)
{
    for (int got = 0; got < n;)
        got += jpeg_read_scanlines(c, rows + got, n - got);
}

static void read_in_place(j_decompress_ptr c, uint8_t *to, const bfs_view *v)
{
    JSAMPROW rows[BFS_STRIP];
    for (int y = 0; y < v->h; y += BFS_STRIP) {
        int n = v->h - y < BFS_STRIP ? v->h - y : BFS_STRIP;
        for (int i = 0; i < n; i++)
            rows[i] = to + (y + i) * v->dy;
        read_rows(c, rows, n);
    }
}

/* read_strips decodes a few rows at a time to scratch, then converts, crops and places them. */
static void read_strips(job *j, uint8_t *to, const bfs_view *v, JDIMENSION left)
{
    j_decompress_ptr c = &j->c;
    const size_t stride = (size_t)c->output_width * c->output_components;
    uint8_t *strip = bfs_grow(j->kept, stride * BFS_STRIP);
    if (!strip)
        give_up(j, BFS_MEMORY, "No memory for a strip of rows");
    JSAMPROW rows[BFS_STRIP];
    for (int i = 0; i < BFS_STRIP; i++)
        rows[i] = strip + i * stride;
    for (int y = 0; y < v->h; y += BFS_STRIP) {
        int n = v->h - y < BFS_STRIP ? v->h - y : BFS_STRIP;
        read_rows(c, rows, n);
        for (int i = 0; i < n && c->out_color_space == JCS_CMYK; i++) {
            bfs_cmyk(rows[i], rows[i], c->output_width, c->saw_Adobe_marker);
            if (v->channels == 1)
                bfs_gray(rows[i], rows[i], c->output_width);
        }
        bfs_place(to + y * v->dy, v->dx, v->dy, v->channels,
                  strip + (size_t)left * v->channels, stride, v->w, n);
    }
}

/* skip_rows decodes and discards n rows. */
static void skip_rows(job *j, int n)
{
    j_decompress_ptr c = &j->c;
    if (n == 0)
        return;
    JSAMPROW row = bfs_grow(j->kept, (size_t)c->output_width * c->output_components);
    if (!row)
        give_up(j, BFS_MEMORY, "No memory for a row");
    for (int y = 0; y < n; y++)
        read_rows(c, &row, 1);
}

/* bfs_jpeg_ends searches for the end marker, which cannot occur in entropy-coded data. It is many
 * times as fast as memmem for these two bytes. */
int bfs_jpeg_ends(const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n;
    while (n >= 2 && (p = memchr(p, 0xff, n - 1))) {
        if (p[1] == JPEG_EOI)
            return 1;
        n = end - ++p;
    }
    return 0;
}

/* finish checks that the file continues to its end. After the image's last row libjpeg itself
 * reads on to EOI; otherwise finish searches for it. */
static void finish(job *j)
{
    j_decompress_ptr c = &j->c;
    if (c->output_scanline == c->output_height) {
        jpeg_finish_decompress(c);
        return;
    }
    if (!jpeg_input_complete(c) && c->unread_marker != JPEG_EOI &&
        !bfs_jpeg_ends(c->src->next_input_byte, c->src->bytes_in_buffer))
        ERREXIT(c, JERR_INPUT_EOF);
}

/* smoothed reports whether a progressive image lacks scans whose contribution libjpeg estimates
 * from neighbouring blocks. */
static int smoothed(j_decompress_ptr c)
{
    if (!c->progressive_mode || !c->coef_bits)
        return 0;
    for (int i = 0; i < c->num_components; i++)
        for (int k = 0; k < DCTSIZE2; k++)
            if (c->coef_bits[i][k])
                return 1;
    return 0;
}

static void decode(job *j, uint8_t *to, const bfs_view *v)
{
    j_decompress_ptr c = &j->c;
    start(j, v);
    JDIMENSION left = v->x;
    if (smoothed(c)) {
        /* libjpeg cannot combine smoothing with cropping: decode all rows at full width. */
        skip_rows(j, v->y);
    } else {
        left = crop(c, v);
        if (v->y > 0)
            jpeg_skip_scanlines(c, v->y);
    }
    if (c->output_components == v->channels && v->dx == v->channels && c->output_width == (JDIMENSION)v->w)
        read_in_place(c, to, v);
    else
        read_strips(j, to, v, left);
    finish(j);
}

int bfs_jpeg_decode(bfs_kept *k, const uint8_t *data, size_t size, uint8_t *to, bfs_view view)
{
    job j = {.kept = k};
    k->code = BFS_OK;
    j.c.err = jpeg_std_error(&j.errors);
    j.errors.error_exit = on_error;
    j.errors.emit_message = on_message;
    j.errors.output_message = on_output;
    j.c.client_data = &j;
    if (!setjmp(j.jump)) {
        jpeg_create_decompress(&j.c);
        j.c.mem->max_memory_to_use = 0; /* no limit, even if the environment sets one */
        jpeg_mem_src(&j.c, data, size);
        decode(&j, to, &view);
    }
    jpeg_destroy_decompress(&j.c);
    return k->code;
}
