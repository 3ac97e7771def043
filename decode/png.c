//go:build cgo

#include "bfs_png.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

/* One image being decoded. libpng's structs cannot be reused, so they live for one call; only
 * the strip is kept. */
typedef struct {
    bfs_kept *kept;
    const bfs_view *view;
    uint8_t *to;
    const uint8_t *next;
    size_t left;
    png_structp png;
    png_infop info;
    size_t stride; /* of a row from libpng */
    int channels;  /* of its pixels; 3 if the caller wants gray from colour */
    int stored;    /* keep them as stored; the view's channels are the bytes per pixel */
    int starved;   /* an allocation has failed and causes any later error */
    jmp_buf jump;
} job;

static void give_up(job *j, int code, const char *text)
{
    bfs_fail(j->kept, code, text);
    longjmp(j->jump, 1);
}

static void on_error(png_structp png, png_const_charp text)
{
    job *j = png_get_error_ptr(png);
    give_up(j, j->starved ? BFS_MEMORY : BFS_CORRUPT, text);
}

/* libpng only warns about many faults and continues with a guess, as reference decoders do.
 * Only these warnings leave no doubt about the pixels: bytes after the compressed data, a
 * damaged palette that is only a suggestion, and anything about chunks whose names begin with
 * a lower-case letter, which are not used. */
static void on_warning(png_structp png, png_const_charp text)
{
    const int ancillary = (text[0] & 0x20) && strlen(text) > 5 && text[4] == ':';
    if (!ancillary && strcmp(text, "IDAT: Extra compressed data") && strcmp(text, "PLTE: invalid"))
        on_error(png, text);
}

/* on_malloc records a failure: libpng and zlib report it in many ways. */
static png_voidp on_malloc(png_structp png, png_alloc_size_t size)
{
    void *at = malloc(size);
    if (!at)
        ((job *)png_get_mem_ptr(png))->starved = 1;
    return at;
}

static void on_free(png_structp png, png_voidp at)
{
    (void)png;
    free(at);
}

static void on_read(png_structp png, png_bytep to, size_t n)
{
    job *j = png_get_io_ptr(png);
    if (n > j->left)
        png_error(png, "the data ends early");
    memcpy(to, j->next, n);
    j->next += n;
    j->left -= n;
}

/* strict makes libpng report faults that it would forgive; on_warning forgives few of them. Data
 * must inflate to exactly the image, with the right checksum. Chunks that cannot change the pixels
 * are skipped, so their checksums and sizes do not matter. */
static void strict(png_structp png)
{
    static const png_byte trns[] = "tRNS";
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, trns, 1);
    png_set_benign_errors(png, 1); /* turns them into warnings */
    png_set_check_for_invalid_index(png, 0); /* entries beyond the palette are black */
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
    png_set_chunk_malloc_max(png, 0);
}

/* as_stored changes only samples of fewer than 8 bits: each gets a byte. */
static void as_stored(job *j)
{
    j->channels = j->view->channels;
    png_set_packing(j->png);
}

/* transform requests 8-bit RGB, or gray if the file is gray and the caller wants gray. */
static void transform(job *j)
{
    const int kind = png_get_color_type(j->png, j->info);
    const int depth = png_get_bit_depth(j->png, j->info);
    const int gray = !(kind & PNG_COLOR_MASK_COLOR);
    j->channels = gray && j->view->channels == 1 ? 1 : 3;
    if (depth == 16)
        png_set_scale_16(j->png);
    if (kind == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(j->png);
    if (gray && depth < 8)
        png_set_expand_gray_1_2_4_to_8(j->png);
    if (kind & PNG_COLOR_MASK_ALPHA)
        png_set_strip_alpha(j->png);
    if (gray && j->channels == 3)
        png_set_gray_to_rgb(j->png);
}

static void prepare(job *j)
{
    if (j->stored)
        as_stored(j);
    else
        transform(j);
    png_read_update_info(j->png, j->info);
    j->stride = png_get_rowbytes(j->png, j->info);
    if (j->stride != (size_t)j->view->width * j->channels)
        give_up(j, BFS_CORRUPT, "libpng makes rows of another length");
}

static uint8_t *strip(job *j, int rows)
{
    uint8_t *at = bfs_grow(j->kept, j->stride * rows);
    if (!at)
        give_up(j, BFS_MEMORY, "No memory for a strip of rows");
    return at;
}

/* to_gray converts a row in place if libpng could not. */
static void to_gray(const job *j, uint8_t *row, int n)
{
    if (j->channels != j->view->channels)
        bfs_gray(row, row, n);
}

static void read_plain(job *j)
{
    const bfs_view *v = j->view;
    const int in_place = j->channels == v->channels && v->dx == v->channels && v->w == v->width;
    if (in_place && v->y == 0) {
        for (int y = 0; y < v->h; y++)
            png_read_row(j->png, j->to + y * v->dy, NULL);
        return;
    }
    uint8_t *rows = strip(j, BFS_STRIP);
    for (int y = 0; y < v->y; y++)
        png_read_row(j->png, rows, NULL);
    for (int y = 0; y < v->h; y += BFS_STRIP) {
        int n = v->h - y < BFS_STRIP ? v->h - y : BFS_STRIP;
        for (int i = 0; i < n; i++) {
            png_read_row(j->png, rows + i * j->stride, NULL);
            to_gray(j, rows + i * j->stride, v->width);
        }
        bfs_place(j->to + y * v->dy, v->dx, v->dy, v->channels,
                  rows + (size_t)v->x * v->channels, j->stride, v->w, n);
    }
}

/* place_pass places a row of one of Adam7's passes: its pixels are step apart in the image,
 * starting at first. */
static void place_pass(const job *j, const uint8_t *row, int y, int first, int step, int n)
{
    const bfs_view *v = j->view;
    int skip = v->x > first ? (v->x - first + step - 1) / step : 0;
    int x = first + skip * step - v->x;
    if (skip >= n || x >= v->w)
        return;
    int count = (v->w - 1 - x) / step + 1;
    if (count > n - skip)
        count = n - skip;
    bfs_place(j->to + x * v->dx + (y - v->y) * v->dy, v->dx * step, v->dy, v->channels,
              row + (size_t)skip * v->channels, 0, count, 1);
}

/* read_interlaced places the pixels of libpng's passes as they arrive, so that it never has to
 * hold a whole image. */
static void read_interlaced(job *j)
{
    const bfs_view *v = j->view;
    uint8_t *row = strip(j, 1);
    for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++) {
        const int cols = PNG_PASS_COLS(v->width, pass), rows = PNG_PASS_ROWS(v->height, pass);
        for (int i = 0; i < rows && cols > 0; i++) {
            png_read_row(j->png, row, NULL);
            const int y = PNG_ROW_FROM_PASS_ROW(i, pass);
            if (y < v->y || y - v->y >= v->h)
                continue;
            to_gray(j, row, cols);
            place_pass(j, row, y, PNG_PASS_START_COL(pass), PNG_PASS_COL_OFFSET(pass), cols);
        }
    }
}

/* read_rest reads the rows below the region: whether a file is accepted must not depend on the
 * region, and the checksums follow the last row. */
static void read_rest(job *j)
{
    const bfs_view *v = j->view;
    if (v->y + v->h == v->height)
        return;
    uint8_t *row = strip(j, 1);
    for (int y = v->y + v->h; y < v->height; y++)
        png_read_row(j->png, row, NULL);
}

static void decode(job *j, const uint8_t *data, size_t size)
{
    j->next = data;
    j->left = size;
    png_set_read_fn(j->png, j, on_read);
    strict(j->png);
    png_read_info(j->png, j->info);
    const bfs_view *v = j->view;
    if (png_get_image_width(j->png, j->info) != (png_uint_32)v->width ||
        png_get_image_height(j->png, j->info) != (png_uint_32)v->height)
        give_up(j, BFS_MISMATCH, "libpng reads another size");
    prepare(j);
    const int interlaced = png_get_interlace_type(j->png, j->info) != PNG_INTERLACE_NONE;
    if (interlaced)
        read_interlaced(j);
    else {
        read_plain(j);
        read_rest(j);
    }
    png_read_end(j->png, NULL);
}

static int library_decode(bfs_kept *k, const uint8_t *data, size_t size, uint8_t *to, const bfs_view *v, int stored)
{
    job j = {.kept = k, .view = v, .to = to, .stored = stored};
    if (!setjmp(j.jump)) {
        j.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &j, on_error, on_warning, &j, on_malloc, on_free);
        j.info = j.png ? png_create_info_struct(j.png) : NULL;
        if (!j.info)
            give_up(&j, BFS_MEMORY, "libpng cannot start");
        decode(&j, data, size);
        if (j.starved)
            give_up(&j, BFS_MEMORY, "Out of memory");
    }
    png_destroy_read_struct(&j.png, &j.info, NULL);
    return k->code;
}

/* bfs_png_decode decodes an image. With stored, it is a whole image, to pixels as they are stored,
 * whose bytes are the view's channels; samples of less than 8 bits take a byte each. */
int bfs_png_decode(bfs_kept *k, const uint8_t *data, size_t size, uint8_t *to, bfs_view view, int stored, int how)
{
    k->code = BFS_OK;
    if (how != BFS_PNG_LIBRARY && bfs_png_fast(k, data, size, to, &view, stored, how == BFS_PNG_PORTABLE))
        return BFS_OK;
    return library_decode(k, data, size, to, &view, stored);
}

const char *bfs_png_version(void)
{
    return png_get_libpng_ver(NULL);
}
