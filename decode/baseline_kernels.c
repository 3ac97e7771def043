//go:build cgo

#include "bfs_baseline.h"
#include "bfs_progressive.h"

static const bfs_implementation implementations[] = {
    [BFS_PORTABLE] = {&bfs_baseline_portable, bfs_entropy_portable, bfs_entropies_portable, &bfs_passes_portable},
#if defined(__x86_64__)
    [BFS_AVX2] = {&bfs_baseline_avx2, bfs_entropy_bmi2, bfs_entropies_bmi2, &bfs_passes_pdep},
    [BFS_AVX512] = {&bfs_baseline_avx512, bfs_entropy_bmi2, bfs_entropies_bmi2, &bfs_passes_pdep},
#endif
};

/* bfs_baseline_by returns an implementation that runs on this processor. */
const bfs_implementation *bfs_baseline_by(int kernel)
{
#if defined(__x86_64__)
    static const bfs_implementation slow_pdep = {&bfs_baseline_avx2, bfs_entropy_bmi2, bfs_entropies_bmi2, &bfs_passes_avx2};
    if (kernel == BFS_AVX2 && (__builtin_cpu_is("znver1") || __builtin_cpu_is("znver2")))
        return &slow_pdep;
#endif
    return &implementations[kernel];
}

/* bfs_baseline_runs reports whether an implementation runs on this processor. */
int bfs_baseline_runs(int kernel)
{
    switch (kernel) {
    case BFS_PORTABLE:
        return 1;
#if defined(__x86_64__) && !defined(BFS_LIBRARIES)
    case BFS_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    case BFS_AVX512:
#ifdef BFS_MSAN
        return 0; /* clang 19 reports permutations of uninitialized bytes, even unused ones */
#endif
        return bfs_baseline_runs(BFS_AVX2) && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vbmi");
#endif
    }
    return 0;
}
