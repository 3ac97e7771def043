//go:build cgo

#include "row.h"

#if defined(__x86_64__)

#include <string.h>
#include <tmmintrin.h>

#define SSSE3 __attribute__((target("ssse3")))
#define INLINE inline __attribute__((always_inline))

static INLINE SSSE3 __m128i load(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)from);
}

static INLINE SSSE3 void store(uint8_t *to, __m128i v)
{
    _mm_storeu_si128((__m128i *)to, v);
}

typedef struct {
    __m128i at[9];
} masks;

static INLINE SSSE3 masks load_masks(const bfs_masks *m)
{
    masks v;
    for (int i = 0; i < 9; i++)
        v.at[i] = load(m->at[i]);
    return v;
}

/* pick assembles destination vector i from three sources. */
static INLINE SSSE3 __m128i pick(const masks *m, int i, __m128i a, __m128i b, __m128i c)
{
    a = _mm_shuffle_epi8(a, m->at[3 * i]);
    b = _mm_shuffle_epi8(b, m->at[3 * i + 1]);
    c = _mm_shuffle_epi8(c, m->at[3 * i + 2]);
    return _mm_or_si128(_mm_or_si128(a, b), c);
}

/* bfs_plan_split fills in the masks for 48 bytes of pixels, mirrored if flip is set, with
 * elements of the given size. */
void bfs_plan_split(bfs_masks *m, int size, int flip)
{
    const int group = 16 / size;
    memset(m, 0x80, sizeof *m);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 16; i++) {
            const int pixel = flip ? group - 1 - i / size : i / size;
            const int from = (3 * pixel + k) * size + i % size;
            m->at[3 * k + from / 16][i] = from % 16;
        }
}

/* split turns 48 bytes of pixels into 16 bytes of each plane. */
static INLINE SSSE3 void split(const masks *m, uint8_t *to, size_t plane, const uint8_t *from)
{
    const __m128i a = load(from), b = load(from + 16), c = load(from + 32);
    store(to, pick(m, 0, a, b, c));
    store(to + plane, pick(m, 1, a, b, c));
    store(to + 2 * plane, pick(m, 2, a, b, c));
}

static SSSE3 size_t planes(const bfs_rows *r, uint8_t *to, const uint8_t *row, size_t n)
{
    const masks m = load_masks(&r->split[r->flip]);
    for (size_t x = 0; x < n; x = bfs_next_group(x, n, 16))
        split(&m, to + x, r->plane, row + 3 * (r->flip ? n - 16 - x : x));
    return n;
}

static SSSE3 size_t mirror_gray(uint8_t *to, const uint8_t *row, size_t n)
{
    const __m128i back = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (size_t x = 0; x < n; x = bfs_next_group(x, n, 16))
        store(to + x, _mm_shuffle_epi8(load(row + n - 16 - x), back));
    return n;
}

/* mirror_rgb mirrors five pixels at a time, in the upper 15 bytes of a vector. The last byte
 * that a step writes belongs to the next pixel, which is written later; so the very last
 * pixel is left for the tables. */
static SSSE3 size_t mirror_rgb(uint8_t *to, const uint8_t *row, size_t n)
{
    const __m128i back = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
    if (n < 6)
        return 0;
    const uint8_t *end = row + 3 * n - 16;
    size_t x = 0;
    for (; x + 16 <= n; x += 15) {
        store(to + 3 * x, _mm_shuffle_epi8(load(end - 3 * x), back));
        store(to + 3 * x + 15, _mm_shuffle_epi8(load(end - 3 * x - 15), back));
        store(to + 3 * x + 30, _mm_shuffle_epi8(load(end - 3 * x - 30), back));
    }
    for (; x + 1 < n; x += 5) {
        x = x < n - 6 ? x : n - 6;
        store(to + 3 * x, _mm_shuffle_epi8(load(end - 3 * x), back));
    }
    return n - 1;
}

size_t bfs_bytes_ssse3(const bfs_rows *r, uint8_t *to, const uint8_t *row)
{
    const size_t n = (size_t)r->width;
    if (!r->planar && r->channels == 3)
        return mirror_rgb(to, row, n);
    if (n < BFS_GROUP)
        return 0;
    if (r->channels == 1)
        return mirror_gray(to, row, n);
    planes(r, to, row, n);
    return n;
}

/* ---- turning a tensor ---- */

/* plan_join fills in the masks of the inverse. */
static void plan_join(bfs_masks *m, int size)
{
    memset(m, 0x80, sizeof *m);
    for (int i = 0; i < 48; i++) {
        const int element = i / size;
        m->at[3 * (i / 16) + element % 3][i % 16] = element / 3 * size + i % size;
    }
}

SSSE3 size_t bfs_split3(uint8_t *to, const uint8_t *pixels, size_t n, int size)
{
    bfs_masks plan;
    bfs_plan_split(&plan, size, 0);
    const masks m = load_masks(&plan);
    const size_t group = 16 / size;
    if (n < group)
        return 0;
    for (size_t x = 0; x < n; x = bfs_next_group(x, n, group))
        split(&m, to + x * size, n * size, pixels + 3 * x * size);
    return n;
}

SSSE3 size_t bfs_join3(uint8_t *pixels, const uint8_t *from, size_t n, int size)
{
    bfs_masks plan;
    plan_join(&plan, size);
    const masks m = load_masks(&plan);
    const size_t group = 16 / size, plane = n * size;
    if (n < group)
        return 0;
    for (size_t x = 0; x < n; x = bfs_next_group(x, n, group)) {
        const __m128i a = load(from + x * size), b = load(from + plane + x * size), c = load(from + 2 * plane + x * size);
        uint8_t *to = pixels + 3 * x * size;
        store(to, pick(&m, 0, a, b, c));
        store(to + 16, pick(&m, 1, a, b, c));
        store(to + 32, pick(&m, 2, a, b, c));
    }
    return n;
}

#else

size_t bfs_split3(uint8_t *planes, const uint8_t *pixels, size_t n, int size)
{
    (void)planes, (void)pixels, (void)n, (void)size;
    return 0;
}

size_t bfs_join3(uint8_t *pixels, const uint8_t *planes, size_t n, int size)
{
    (void)planes, (void)pixels, (void)n, (void)size;
    return 0;
}

#endif
