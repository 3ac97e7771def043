//go:build cgo

#include "bfs_png.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* PNG's filters store each byte of a row as its difference from a prediction, computed from
 * the bytes one pixel to the left (a), above (b), and above left (c). Up is a sum of rows;
 * the others are chains from pixel to pixel, so each step must have a short latency. Nothing
 * is read or written past a row's n bytes. */

/* paeth predicts whichever of a, b and c is nearest to a + b - c, the first of two that are
 * equally near. With t = 3c - a - b that is the greater of a and b if t <= the smaller, the
 * smaller if t >= the greater, else c: two comparisons that can run in parallel. */
static uint8_t paeth(int a, int b, int c)
{
    const int t = 3 * c - a - b, lo = a < b ? a : b, hi = a < b ? b : a;
    if (t <= lo)
        return (uint8_t)hi;
    return (uint8_t)(t >= hi ? lo : c);
}

static inline __attribute__((always_inline)) void
undo_scalar(const int filter, uint8_t *to, const uint8_t *from, const uint8_t *above, size_t n, const int step)
{
    uint8_t a[4] = {0}, c[4] = {0};
    for (size_t i = 0; i < n; i += step)
        for (int k = 0; k < step; k++) {
            const uint8_t x = from[i + k], b = above[i + k];
            switch (filter) {
            case BFS_SUB:
                a[k] = (uint8_t)(x + a[k]);
                break;
            case BFS_UP:
                a[k] = (uint8_t)(x + b);
                break;
            case BFS_AVERAGE:
                a[k] = (uint8_t)(x + (a[k] + b) / 2);
                break;
            default:
                a[k] = (uint8_t)(x + paeth(a[k], b, c[k]));
                c[k] = b;
            }
            to[i + k] = a[k];
        }
}

/* scalar selects the filter outside the loop over a row. */
static inline __attribute__((always_inline)) void
scalar(int filter, uint8_t *to, const uint8_t *from, const uint8_t *above, size_t n, const int step)
{
    switch (filter) {
    case BFS_SUB:
        undo_scalar(BFS_SUB, to, from, above, n, step);
        break;
    case BFS_UP:
        undo_scalar(BFS_UP, to, from, above, n, 1);
        break;
    case BFS_AVERAGE:
        undo_scalar(BFS_AVERAGE, to, from, above, n, step);
        break;
    default:
        undo_scalar(BFS_PAETH, to, from, above, n, step);
    }
}

#ifdef __SSE2__

/* The pixels to the left (a) and above left (c), up to four bytes each. */
typedef struct {
    __m128i a, c;
} chain;

static inline __attribute__((always_inline)) __m128i load(const uint8_t *p, const int n)
{
    int32_t v = 0;
    memcpy(&v, p, n);
    return _mm_cvtsi32_si128(v);
}

static inline __attribute__((always_inline)) void store(uint8_t *p, __m128i x, const int n)
{
    const int32_t v = _mm_cvtsi128_si32(x);
    memcpy(p, &v, n);
}

static inline __m128i inverse(__m128i x)
{
    return _mm_xor_si128(x, _mm_set1_epi8(-1));
}

static inline __m128i wide(__m128i x)
{
    return _mm_unpacklo_epi8(x, _mm_setzero_si128());
}

/* next_average: the averaging instruction rounds up. Averaging inverses rounds down, and with a
 * kept inverted, a step is two instructions long. */
static inline __m128i next_average(chain *s, __m128i x, __m128i b)
{
    s->a = _mm_sub_epi8(_mm_avg_epu8(s->a, inverse(b)), x);
    return inverse(s->a);
}

/* next_paeth is paeth in 16 bits. x is added to all three candidates before one is chosen, which
 * also shortens the chain. If both comparisons fail, a, b and c are equal. */
static inline __m128i next_paeth(chain *s, __m128i x, __m128i b)
{
    const __m128i a = s->a, c = s->c;
    x = wide(x);
    b = wide(b);
    const __m128i t = _mm_sub_epi16(_mm_sub_epi16(_mm_add_epi16(_mm_add_epi16(c, c), c), b), a);
    const __m128i lo = _mm_min_epi16(a, b), hi = _mm_max_epi16(a, b);
    const __m128i below = _mm_cmpgt_epi16(hi, t), over = _mm_cmpgt_epi16(t, lo);
    const __m128i is_lo = _mm_andnot_si128(below, _mm_add_epi8(lo, x));
    const __m128i is_hi = _mm_andnot_si128(over, _mm_add_epi8(hi, x));
    const __m128i is_c = _mm_and_si128(over, _mm_and_si128(below, _mm_add_epi8(c, x)));
    s->a = _mm_or_si128(_mm_or_si128(is_lo, is_hi), is_c);
    s->c = b;
    return _mm_packus_epi16(s->a, s->a);
}

static inline __attribute__((always_inline)) __m128i next(const int filter, chain *s, __m128i x, __m128i b)
{
    if (filter == BFS_SUB)
        return s->a = _mm_add_epi8(s->a, x);
    return filter == BFS_AVERAGE ? next_average(s, x, b) : next_paeth(s, x, b);
}

/* undo_vector moves four bytes at a time while at least that many remain, even for three-byte
 * pixels: the next store corrects the fourth byte. Since to may equal from, the next pixel is
 * loaded before that store. */
static inline __attribute__((always_inline)) void
undo_vector(const int filter, uint8_t *to, const uint8_t *from, const uint8_t *above, size_t n, const int step)
{
    const __m128i zero = _mm_setzero_si128();
    chain s = {filter == BFS_AVERAGE ? inverse(zero) : zero, zero};
    size_t i = 0;
    if (n >= (size_t)step + 4) {
        __m128i x = load(from, 4);
        for (; i + step + 4 <= n; i += step) {
            const __m128i after = load(from + i + step, 4);
            store(to + i, next(filter, &s, x, load(above + i, 4)), 4);
            x = after;
        }
        store(to + i, next(filter, &s, x, load(above + i, step)), step);
        i += step;
    }
    for (; i < n; i += step)
        store(to + i, next(filter, &s, load(from + i, step), load(above + i, step)), step);
}

static void up_vector(uint8_t *to, const uint8_t *from, const uint8_t *above, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(from + i));
        const __m128i b = _mm_loadu_si128((const __m128i *)(above + i));
        _mm_storeu_si128((__m128i *)(to + i), _mm_add_epi8(x, b));
    }
    for (; i < n; i++)
        to[i] = (uint8_t)(from[i] + above[i]);
}

static inline __attribute__((always_inline)) void
vector_chain(int filter, uint8_t *to, const uint8_t *from, const uint8_t *above, size_t n, const int step)
{
    switch (filter) {
    case BFS_SUB:
        undo_vector(BFS_SUB, to, from, above, n, step);
        break;
    case BFS_AVERAGE:
        undo_vector(BFS_AVERAGE, to, from, above, n, step);
        break;
    default:
        undo_vector(BFS_PAETH, to, from, above, n, step);
    }
}

/* vector returns 0 if it leaves the row to scalar, because a chain of such small pixels would not
 * benefit. */
static int vector(int filter, uint8_t *to, const uint8_t *from, const uint8_t *above, size_t n, int step)
{
    if (filter == BFS_UP)
        up_vector(to, from, above, n);
    else if (step == 3)
        vector_chain(filter, to, from, above, n, 3);
    else if (step == 4)
        vector_chain(filter, to, from, above, n, 4);
    else
        return 0;
    return 1;
}

#else

static int vector(int filter, uint8_t *to, const uint8_t *from, const uint8_t *above, size_t n, int step)
{
    return 0;
}

#endif

void bfs_unfilter(int filter, uint8_t *to, const uint8_t *from, const uint8_t *above, size_t n, int step, int portable)
{
    if (filter == BFS_NONE) {
        if (to != from)
            memcpy(to, from, n);
        return;
    }
    if (!portable && vector(filter, to, from, above, n, step))
        return;
    switch (step) {
    case 1:
        scalar(filter, to, from, above, n, 1);
        break;
    case 2:
        scalar(filter, to, from, above, n, 2);
        break;
    case 3:
        scalar(filter, to, from, above, n, 3);
        break;
    default:
        scalar(filter, to, from, above, n, 4);
    }
}
