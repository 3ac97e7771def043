//go:build cgo

#include "bfs_x86.h"

#if defined(__x86_64__)

static void arrange_gray(int16_t *to, const int16_t *weights, int n, int taps)
{
    for (int i = 0; i < n; i += 2)
        for (int t = 0; t < taps; t += 4)
            for (int k = 0; k < 2; k++)
                for (int u = t; u < t + 4; u++)
                    *to++ = u < taps && i + k < n ? weights[(size_t)(i + k) * taps + u] : 0;
}

void bfs_arrange(int16_t *to, const int16_t *weights, int n, int taps, int channels, int lanes)
{
    if (channels == 1) {
        arrange_gray(to, weights, n, taps);
        return;
    }
    for (int i = 0; i < n; i += 4 * lanes)
        for (int v = 0; v < 4; v++)
            for (int t = 0; t < taps; t += 2)
                for (int l = 0; l < lanes; l++, to += 8) {
                    const int column = i + 4 * l + v;
                    bfs_spread(to, column < n ? bfs_pair(weights + (size_t)column * taps + t) : 0);
                }
}

#endif
