//go:build cgo

#include "row.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#endif

int bfs_fastest(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    const int f16c = __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c)
        return BFS_AVX2;
    if (__builtin_cpu_supports("ssse3"))
        return BFS_SSSE3;
#endif
    return BFS_PORTABLE;
}

/* look_up writes n pixels from the tables. Bytes need no table. */
static inline __attribute__((always_inline)) void
look_up(const bfs_rows *r, uint8_t *to, const uint8_t *from, ptrdiff_t back, size_t n,
        const int size, const int channels)
{
    const size_t step = r->step, plane = r->plane; /* stores through to might alias r */
    for (; n > 0; n--, to += step, from += back) {
        memcpy(to, size == 1 ? from : r->table[0][from[0]], size);
        if (channels == 1)
            continue;
        memcpy(to + plane, size == 1 ? from + 1 : r->table[1][from[1]], size);
        memcpy(to + 2 * plane, size == 1 ? from + 2 : r->table[2][from[2]], size);
    }
}

/* from_tables writes the pixels of a row, starting with number x. */
static void from_tables(const bfs_rows *r, uint8_t *to, const uint8_t *row, size_t x)
{
    const ptrdiff_t channels = r->channels;
    const size_t n = (size_t)r->width - x;
    const ptrdiff_t back = r->flip ? -channels : channels;
    if (n == 0)
        return;
    to += x * r->step;
    row += (r->flip ? n - 1 : x) * (size_t)channels;
    switch (channels * 8 + r->size) {
    case 1 * 8 + 1: look_up(r, to, row, back, n, 1, 1); break;
    case 1 * 8 + 2: look_up(r, to, row, back, n, 2, 1); break;
    case 1 * 8 + 4: look_up(r, to, row, back, n, 4, 1); break;
    case 3 * 8 + 1: look_up(r, to, row, back, n, 1, 3); break;
    case 3 * 8 + 2: look_up(r, to, row, back, n, 2, 3); break;
    case 3 * 8 + 4: look_up(r, to, row, back, n, 4, 3); break;
    }
}

static void put_row(const bfs_rows *r, uint8_t *to, const uint8_t *row)
{
    size_t done = 0;
    if (r->dtype == BFS_UINT8 && !r->planar && !r->flip) {
        memcpy(to, row, (size_t)r->width * r->channels);
        return;
    }
#if defined(__x86_64__)
    if (r->dtype == BFS_UINT8 && r->kernel >= BFS_SSSE3)
        done = bfs_bytes_ssse3(r, to, row);
    else if (r->formula != BFS_NEVER)
        done = bfs_floats_avx2(r, to, row);
#endif
    from_tables(r, to, row, done);
}

/* bfs_rows_put writes n rows, starting with row y, all within the sample. */
void bfs_rows_put(const bfs_rows *r, int y, int n, const uint8_t *rows, size_t stride)
{
    uint8_t *to = r->slot + y * r->pitch;
    for (; n > 0; n--, to += r->pitch, rows += stride)
        put_row(r, to, rows);
}

/* bfs_rows_deliver writes one row for C callers; it ignores rows outside the sample. */
void bfs_rows_deliver(void *ctx, int y, const uint8_t *row)
{
    const bfs_rows *r = ctx;
    if (y >= 0 && y < r->height)
        put_row(r, r->slot + y * r->pitch, row);
}

/* bfs_rows_end ends a sample. What was stored past the cache is visible to all threads that learn of
 * the end. */
void bfs_rows_end(bfs_rows *r)
{
    r->slot = NULL;
    r->height = 0;
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* agrees compares a formula with the tables, for every value of every channel. */
static int agrees(bfs_rows *r, int formula)
{
    uint8_t row[256 * 3], want[sizeof row * 4], got[sizeof want];
    r->width = 256;
    r->plane = r->size;
    r->step = (size_t)r->channels * r->size;
    for (int i = 0; i < 256 * r->channels; i++)
        row[i] = (uint8_t)(i / r->channels);
    r->formula = BFS_NEVER;
    put_row(r, want, row);
    r->formula = formula;
    memcpy(r->offset, formula == BFS_NEARLY ? r->offset_nearly : r->offset_exactly, sizeof r->offset);
    put_row(r, got, row);
    return !memcmp(want, got, 256 * r->step);
}

/* bfs_rows_ready completes a context once the converter's fields are set. */
void bfs_rows_ready(bfs_rows *r)
{
#if defined(__x86_64__)
    bfs_plan_split(&r->split[0], 1, 0);
    bfs_plan_split(&r->split[1], 1, 1);
    bfs_plan_lanes(r);
    if (r->kernel < BFS_AVX2 || r->dtype == BFS_UINT8)
        return;
    if (!agrees(r, BFS_NEARLY) && !agrees(r, BFS_EXACTLY))
        r->formula = BFS_NEVER;
    r->width = 0;
#endif
}
