//go:build cgo

#include "bfs_resample.h"

static const bfs_kernel *const kernels[BFS_KERNELS] = {
    [BFS_PORTABLE] = &bfs_portable,
#if defined(__x86_64__)
    [BFS_SSSE3] = &bfs_ssse3,
    [BFS_AVX2] = &bfs_avx2,
    [BFS_AVX512] = &bfs_avx512,
#endif
};

/* bfs_fastest_kernel returns the best kernel for this processor, which also runs all kernels before
 * it. */
int bfs_fastest_kernel(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni"))
        return BFS_AVX512;
    if (__builtin_cpu_supports("avx2"))
        return BFS_AVX2;
    if (__builtin_cpu_supports("ssse3"))
        return BFS_SSSE3;
#endif
    return BFS_PORTABLE;
}

typedef void (*put_row)(void *ctx, int y, const uint8_t *row);

/* bfs_resize makes rows [first, end) of the result and puts each as soon as it is complete;
 * without put, it leaves the last one in scratch. The call for row 0 must come before all
 * others. */
void bfs_resize(bfs_job j, int kernel, const uint8_t *from, uint8_t *scratch, int first, int end, void *put, void *ctx)
{
    const bfs_kernel *k = kernels[kernel];
    const int32_t *at_y = (const int32_t *)(scratch + j.at_y), *at_x = (const int32_t *)(scratch + j.at_x);
    const int16_t *weights_y = (const int16_t *)(scratch + j.weights_y);
    int16_t *arranged = (int16_t *)(scratch + j.arranged), *line = (int16_t *)(scratch + j.line);
    uint8_t *out = scratch + j.out;

    if (first == 0)
        k->arrange(arranged, (const int16_t *)(scratch + j.weights_x), at_x, j.width, j.taps_x, j.channels);
    for (int y = first; y < end; y++) {
        k->down(line, from + at_y[y] * j.stride, j.stride, j.columns * j.channels,
                weights_y + (size_t)y * j.taps_y, j.taps_y, j.taps_y > j.rows, j.shift_y);
        (j.channels == 3 ? k->rgb : k->gray)(out, line, at_x, arranged, j.width, j.taps_x, j.shift_x);
        if (put)
            ((put_row)put)(ctx, y, out);
    }
}
