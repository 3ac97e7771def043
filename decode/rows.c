//go:build cgo

#include "bfs_decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libdeflate.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#ifdef BFS_MSAN
#include <sanitizer/msan_interface.h>
#endif

int bfs_fail(bfs_kept *k, int code, const char *text)
{
    snprintf(k->error, sizeof k->error, "%s", text);
    return k->code = code;
}

/* bfs_grow returns the kept memory, at least size bytes, or NULL; its contents are lost. All of it
 * is initialized: damaged data can make a decoder look at bytes that it then rejects. */
uint8_t *bfs_grow(bfs_kept *k, size_t size)
{
    if (size > k->size) {
        free(k->at);
        k->at = calloc(1, size);
        k->size = k->at ? size : 0;
    }
#ifdef BFS_MSAN
    __msan_poison(k->at, k->size); /* leftovers of other images must not matter */
#endif
    return k->at;
}

void bfs_free(bfs_kept *k)
{
    free(k->at);
    k->at = NULL;
    k->size = 0;
    free(k->made);
    k->made = NULL;
    k->made_room = 0;
    bfs_tables_free(k->tables);
    libdeflate_free_decompressor(k->inflater);
    k->inflater = NULL;
}

static inline __attribute__((always_inline)) void
place(uint8_t *to, ptrdiff_t dx, ptrdiff_t dy, const int channels,
      const uint8_t *from, size_t stride, int w, int h)
{
    if (dx == channels) {
        for (int y = 0; y < h; y++)
            memcpy(to + y * dy, from + y * stride, (size_t)w * channels);
    } else if (dy == channels || dy == -channels) {
        /* Turned: the pixels of a column become adjacent in the destination. */
        for (int x = 0; x < w; x++)
            for (int y = 0; y < h; y++)
                memcpy(to + x * dx + y * dy, from + y * stride + (size_t)x * channels, channels);
    } else {
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                memcpy(to + x * dx + y * dy, from + y * stride + (size_t)x * channels, channels);
    }
}

/* bfs_place copies h rows of w pixels to their places. */
void bfs_place(uint8_t *to, ptrdiff_t dx, ptrdiff_t dy, int channels,
               const uint8_t *from, size_t stride, int w, int h)
{
    if (channels == 3)
        place(to, dx, dy, 3, from, stride, w, h);
    else if (channels == 1)
        place(to, dx, dy, 1, from, stride, w, h);
    else
        place(to, dx, dy, channels, from, stride, w, h);
}

#if defined(__x86_64__)
/* Five pixels at a time; the next store overwrites the sixteenth byte. */
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

/* bfs_swap converts n BGR pixels to RGB. */
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

/* bfs_colours writes the colours of n indices: a colour has its red in the lowest 8 bits, and then
 * green and blue. Two colours are stored at once, and the next two overwrite the excess bytes. */
void bfs_colours(uint8_t *to, const uint8_t *from, size_t n, const uint32_t table[256])
{
    size_t i = 0;
    for (; i + 5 <= n; i += 4) {
        bfs_store64(to + 3 * i, table[from[i]] | (uint64_t)table[from[i + 1]] << 24);
        bfs_store64(to + 3 * i + 6, table[from[i + 2]] | (uint64_t)table[from[i + 3]] << 24);
    }
    for (; i < n; i++) {
        const uint32_t c = table[from[i]];
        to[3 * i] = (uint8_t)c;
        to[3 * i + 1] = (uint8_t)(c >> 8);
        to[3 * i + 2] = (uint8_t)(c >> 16);
    }
}

/* bfs_gray converts n RGB pixels to gray. to may equal rgb. */
void bfs_gray(uint8_t *to, const uint8_t *rgb, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = bfs_luma(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
}

/* bfs_cmyk converts n CMYK pixels to RGB, round(c*k/255); to may equal cmyk. Adobe stores them
 * inverted. */
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
