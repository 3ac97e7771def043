//go:build cgo

#include "row.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define INLINE inline __attribute__((always_inline))

/* A channel's constants, in each of eight lanes. */
typedef struct {
    __m256 mean, scale, scale_low, offset;
} constants;

/* How a row is written. In the inner loops all of it is a compile-time constant. */
typedef struct {
    int dtype, formula, planar;
} way;

static INLINE AVX2 constants lanes(const bfs_rows *r, int i)
{
    return (constants){_mm256_loadu_ps(r->mean + i), _mm256_loadu_ps(r->scale + i),
                       _mm256_loadu_ps(r->scale_low + i), _mm256_loadu_ps(r->offset + i)};
}

static INLINE AVX2 constants channel(const bfs_rows *r, int k)
{
    return (constants){_mm256_set1_ps(r->mean[k]), _mm256_set1_ps(r->scale[k]),
                       _mm256_set1_ps(r->scale_low[k]), _mm256_set1_ps(r->offset[k])};
}

/* number computes eight elements. EXACTLY: the difference to the rounded mean has no error,
 * and the rounding errors of mean and 1/std are added before the only rounding that matters.
 * NEARLY: v*scale + offset, without the mean's lanes. */
static INLINE AVX2 __m256 number(__m256i v, const constants *c, const way how)
{
    const __m256 x = _mm256_cvtepi32_ps(v);
    if (how.formula == BFS_NEARLY)
        return _mm256_fmadd_ps(x, c->scale, c->offset);
    const __m256 d = _mm256_sub_ps(x, c->mean);
    return _mm256_fmadd_ps(d, c->scale, _mm256_fmadd_ps(d, c->scale_low, c->offset));
}

/* brain rounds to the upper halves, ties to even; with NEARLY, ties away from zero. */
static INLINE AVX2 __m256i brain(__m256 x, const way how)
{
    const __m256i u = _mm256_castps_si256(x);
    if (how.formula == BFS_NEARLY)
        return _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x8000)), 16);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd), 16);
}

/* Batch memory is not cached when it is written, and 32-bit elements are limited by that. They are
 * stored past the cache where they are aligned, or else the processor would read each line first.
 * (16-bit elements and bytes gain nothing from that.) Elements that are not aligned are prefetched
 * this far ahead; the address may be beyond the batch, since a prefetch never faults. */
enum { BFS_AHEAD = 2048 };

/* put writes sixteen consecutive elements. */
static INLINE AVX2 void
put(uint8_t *to, __m256i low, const constants *cl, __m256i high, const constants *ch, const way how)
{
    const __m256 a = number(low, cl, how), b = number(high, ch, how);
    if (how.dtype == BFS_FLOAT32 && (uintptr_t)to % sizeof a == 0) {
        _mm256_stream_ps((float *)to, a);
        _mm256_stream_ps((float *)(to + 32), b);
    } else if (how.dtype == BFS_FLOAT32) {
        __builtin_prefetch(to + BFS_AHEAD, 1);
        _mm256_storeu_ps((float *)to, a);
        _mm256_storeu_ps((float *)(to + 32), b);
    } else if (how.dtype == BFS_FLOAT16) {
        _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
        _mm_storeu_si128((__m128i *)(to + 16), _mm256_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT));
    } else {
        const __m256i halves = _mm256_packus_epi32(brain(a, how), brain(b, how));
        _mm256_storeu_si256((__m256i *)to, _mm256_permute4x64_epi64(halves, 0xd8));
    }
}

/* A shuffle moves bytes into 32-bit lanes, within each half of the vector. So each half is
 * loaded from where its bytes are: 16 of a group's 48 bytes. */
static INLINE AVX2 __m128i load(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)from);
}

static INLINE AVX2 __m256i pair(const uint8_t *low, const uint8_t *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load(low)), load(high), 1);
}

/* both uses the same 16 bytes in both halves. */
static INLINE AVX2 __m256i both(const uint8_t *from, __m256i m)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load(from)), m);
}

static INLINE AVX2 __m256i mask(const uint32_t *lane)
{
    return _mm256_loadu_si256((const __m256i *)lane);
}

/* bfs_plan_lanes fills in the masks: for each lane, the byte that it takes from its half, and
 * zeros. A half for a plane has four pixels in 12 bytes, and four more bytes, after them or,
 * in the second half, before them. Halves for whole pixels have the same bytes, from one of
 * three places in a group. */
void bfs_plan_lanes(bfs_rows *r)
{
    for (int n = 0; n < 2 * 3 * 8; n++) {
        const int flip = n / 24, k = n / 8 % 3, i = n % 8;
        const int pixel = flip ? 3 - i % 4 : i % 4;
        const int before = (i < 4) == flip ? 4 : 0;
        r->lanes_of_planes[flip][k][i] = 0x80808000u | (uint32_t)(before + 3 * pixel + k);

        const int element = 8 * k + i, place = flip ? 8 - 4 * k : 4 * k;
        const int from = 3 * (flip ? 7 - element / 3 : element / 3) + element % 3;
        r->lanes_of_pixels[flip][k][i] = 0x80808000u | (uint32_t)(from - place);
    }
}

/* Sixteen pixels into planes. The second half of each vector is loaded four bytes early, so
 * that the last one does not read past the group, and all use the same masks. When mirrored,
 * the first half has the group's last pixels. */
static INLINE AVX2 size_t
planes(const bfs_rows *r, uint8_t *to, const uint8_t *row, const way how)
{
    const size_t n = (size_t)r->width, size = how.dtype == BFS_FLOAT32 ? 4 : 2;
    const int flip = r->flip;
    const size_t plane = r->plane;
    const size_t h0 = flip ? 32 : 0, h1 = flip ? 24 : 8, h2 = flip ? 8 : 24, h3 = flip ? 0 : 32;
    const constants c0 = channel(r, 0), c1 = channel(r, 1), c2 = channel(r, 2);
    const uint32_t(*lane)[8] = r->lanes_of_planes[flip];
    const __m256i m0 = mask(lane[0]), m1 = mask(lane[1]), m2 = mask(lane[2]);
    for (size_t x = 0; x < n; x = bfs_next_group(x, n, BFS_GROUP)) {
        const uint8_t *from = row + 3 * (flip ? n - BFS_GROUP - x : x);
        const __m256i a = pair(from + h0, from + h1), b = pair(from + h2, from + h3);
        uint8_t *at = to + x * size;
        put(at, _mm256_shuffle_epi8(a, m0), &c0, _mm256_shuffle_epi8(b, m0), &c0, how);
        put(at + plane, _mm256_shuffle_epi8(a, m1), &c1, _mm256_shuffle_epi8(b, m1), &c1, how);
        put(at + 2 * plane, _mm256_shuffle_epi8(a, m2), &c2, _mm256_shuffle_epi8(b, m2), &c2, how);
    }
    return n;
}

/* Sixteen whole pixels. Eight elements come from at most nine bytes, so both halves hold the
 * same 16 bytes: one of three overlapping ranges in half a group. */
static INLINE AVX2 size_t
pixels(const bfs_rows *r, uint8_t *to, const uint8_t *row, const way how)
{
    const size_t n = (size_t)r->width, size = how.dtype == BFS_FLOAT32 ? 4 : 2;
    const int flip = r->flip;
    const size_t h0 = flip ? 24 : 0, h1 = flip ? 0 : 24, t0 = flip ? 8 : 0, t1 = 4, t2 = flip ? 0 : 8;
    const constants c0 = lanes(r, 0), c1 = lanes(r, 8), c2 = lanes(r, 16);
    const uint32_t(*lane)[8] = r->lanes_of_pixels[flip];
    const __m256i m0 = mask(lane[0]), m1 = mask(lane[1]), m2 = mask(lane[2]);
    for (size_t x = 0; x < n; x = bfs_next_group(x, n, BFS_GROUP)) {
        const uint8_t *from = row + 3 * (flip ? n - BFS_GROUP - x : x);
        uint8_t *at = to + x * 3 * size;
        put(at, both(from + h0 + t0, m0), &c0, both(from + h0 + t1, m1), &c1, how);
        put(at + 16 * size, both(from + h0 + t2, m2), &c2, both(from + h1 + t0, m0), &c0, how);
        put(at + 32 * size, both(from + h1 + t1, m1), &c1, both(from + h1 + t2, m2), &c2, how);
    }
    return n;
}

static INLINE AVX2 size_t gray(const bfs_rows *r, uint8_t *to, const uint8_t *row, const way how)
{
    const __m128i back = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const size_t n = (size_t)r->width, size = how.dtype == BFS_FLOAT32 ? 4 : 2;
    const constants c = channel(r, 0);
    for (size_t x = 0; x < n; x = bfs_next_group(x, n, BFS_GROUP)) {
        __m128i v = load(row + (r->flip ? n - BFS_GROUP - x : x));
        if (r->flip)
            v = _mm_shuffle_epi8(v, back);
        put(to + x * size, _mm256_cvtepu8_epi32(v), &c, _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8)), &c, how);
    }
    return n;
}

static INLINE AVX2 size_t row_of(const bfs_rows *r, uint8_t *to, const uint8_t *row, const way how)
{
    if (r->channels == 1)
        return gray(r, to, row, how);
    return how.planar ? planes(r, to, row, how) : pixels(r, to, row, how);
}

static INLINE AVX2 size_t
formula(const bfs_rows *r, uint8_t *to, const uint8_t *row, const int dtype, const int planar)
{
    return r->formula == BFS_NEARLY ? row_of(r, to, row, (way){dtype, BFS_NEARLY, planar})
                                    : row_of(r, to, row, (way){dtype, BFS_EXACTLY, planar});
}

AVX2 size_t bfs_floats_avx2(const bfs_rows *r, uint8_t *to, const uint8_t *row)
{
    if (r->width < BFS_GROUP)
        return 0;
    switch (r->dtype * 2 + r->planar) {
    case BFS_FLOAT16 * 2:      return formula(r, to, row, BFS_FLOAT16, 0);
    case BFS_FLOAT16 * 2 + 1:  return formula(r, to, row, BFS_FLOAT16, 1);
    case BFS_BFLOAT16 * 2:     return formula(r, to, row, BFS_BFLOAT16, 0);
    case BFS_BFLOAT16 * 2 + 1: return formula(r, to, row, BFS_BFLOAT16, 1);
    case BFS_FLOAT32 * 2:      return formula(r, to, row, BFS_FLOAT32, 0);
    case BFS_FLOAT32 * 2 + 1:  return formula(r, to, row, BFS_FLOAT32, 1);
    }
    return 0;
}

#endif
