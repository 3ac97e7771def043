//go:build cgo

#include "bfs_decode.h"

#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

bfs_handle *bfs_new(void)
{
    return calloc(1, sizeof(bfs_handle));
}

void bfs_free(bfs_handle *h)
{
    free(h->at);
    free(h);
}

int bfs_fail(bfs_handle *h, int code, const char *text)
{
    h->error.code = code;
    strncpy(h->error.text, text, sizeof h->error.text - 1);
    h->error.text[sizeof h->error.text - 1] = 0;
    return code;
}

/* bfs_grow returns the handle's memory, of size bytes at least, or NULL; what was
 * in it is lost. */
uint8_t *bfs_grow(bfs_handle *h, size_t size)
{
    if (size <= h->size)
        return h->at;
    bfs_trim(h);
    h->at = malloc(size);
    if (h->at)
        h->size = size;
    return h->at;
}

void bfs_trim(bfs_handle *h)
{
    free(h->at);
    h->at = NULL;
    h->size = 0;
}

static inline void put(uint8_t *to, const uint8_t *from, int channels)
{
    to[0] = from[0];
    if (channels == 3) {
        to[1] = from[1];
        to[2] = from[2];
    }
}

static inline __attribute__((always_inline)) void
place(uint8_t *to, ptrdiff_t dx, ptrdiff_t dy, const int channels,
      const uint8_t *from, size_t stride, int w, int h)
{
    if (dx == channels) {
        for (int y = 0; y < h; y++)
            memcpy(to + y * dy, from + y * stride, (size_t)w * channels);
    } else if (dy == channels || dy == -channels) {
        /* Turned: the rows' pixels in one column are neighbours over there. */
        for (int x = 0; x < w; x++)
            for (int y = 0; y < h; y++)
                put(to + x * dx + y * dy, from + y * stride + (size_t)x * channels, channels);
    } else {
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                put(to + x * dx + y * dy, from + y * stride + (size_t)x * channels, channels);
    }
}

/* bfs_place copies h rows of w pixels to where they belong. */
void bfs_place(uint8_t *to, ptrdiff_t dx, ptrdiff_t dy, int channels,
               const uint8_t *from, size_t stride, int w, int h)
{
    if (channels == 3)
        place(to, dx, dy, 3, from, stride, w, h);
    else
        place(to, dx, dy, 1, from, stride, w, h);
}

#if defined(__x86_64__)
/* Five pixels at a time; the sixteenth byte that is stored is overwritten by the next. */
__attribute__((target("ssse3"))) static size_t swap_ssse3(uint8_t *to, const uint8_t *from, size_t n)
{
    const __m128i turned = _mm_setr_epi8(2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9, 14, 13, 12, 15);
    size_t i = 0;
    for (; i + 6 <= n; i += 5) {
        const __m128i five = _mm_loadu_si128((const __m128i *)(from + 3 * i));
        _mm_storeu_si128((__m128i *)(to + 3 * i), _mm_shuffle_epi8(five, turned));
    }
    return i;
}
#endif

/* bfs_swap makes n RGB pixels of BGR ones. */
void bfs_swap(uint8_t *to, const uint8_t *from, size_t n)
{
    size_t i = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("ssse3"))
        i = swap_ssse3(to, from, n);
#endif
    for (; i < n; i++) {
        to[3 * i] = from[3 * i + 2];
        to[3 * i + 1] = from[3 * i + 1];
        to[3 * i + 2] = from[3 * i];
    }
}

/* bfs_gray makes n gray pixels of RGB ones, as BT.601 weighs them. to may be
 * where rgb is. */
void bfs_gray(uint8_t *to, const uint8_t *rgb, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)((19595u * rgb[3 * i] + 38470u * rgb[3 * i + 1] + 7471u * rgb[3 * i + 2] + 32768u) >> 16);
}

/* bfs_cmyk makes n RGB pixels of CMYK ones, in place if to is where cmyk is:
 * round(c*k/255) of what each ink leaves. Inverted is how Adobe stores it. */
void bfs_cmyk(uint8_t *to, const uint8_t *cmyk, size_t n, int inverted)
{
    const unsigned flip = inverted ? 0 : 255;
    for (size_t i = 0; i < n; i++, to += 3, cmyk += 4) {
        const unsigned k = cmyk[3] ^ flip;
        const unsigned r = (cmyk[0] ^ flip) * k, g = (cmyk[1] ^ flip) * k, b = (cmyk[2] ^ flip) * k;
        to[0] = (uint8_t)((r + 127) / 255);
        to[1] = (uint8_t)((g + 127) / 255);
        to[2] = (uint8_t)((b + 127) / 255);
    }
}
