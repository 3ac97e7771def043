/* What kernels for x86 have in common, for vectors of several lanes of 16 bytes; for ssse3.c, avx2.c and
 * avx512.c, which define
 *
 *   X(name)  the intrinsic of that width, VECTOR its type, ZERO a vector of zeros, LOAD(p) the bytes at p
 *   LANES    lanes in a vector
 *   add      a sum and the products of 16-bit values, by pairs
 *   keep     16*LANES sums, of which each lane of the two vectors has the next 8
 *   FEWER    down for fewer values
 */
enum { WIDTH = 16 * LANES };

/* down_some makes WIDTH values. The bytes of two rows are interleaved, so that one instruction
 * multiplies both by their weights and adds. */
INLINE void down_some(int16_t *to, const uint8_t *from, ptrdiff_t stride, const int16_t *weights, const int taps, const int lone, VECTOR half, __m128i shift)
{
    const VECTOR zero = ZERO;
    VECTOR s0 = half, s1 = half, s2 = half, s3 = half;
    for (int t = 0; t < taps; t += 2, from += 2 * stride) {
        const VECTOR w = X(set1_epi32)(bfs_pair(weights + t));
        const VECTOR a = LOAD(from);
        const VECTOR b = lone && t + 2 == taps ? zero : LOAD(from + stride);
        const VECTOR lo = X(unpacklo_epi8)(a, b), hi = X(unpackhi_epi8)(a, b);
        s0 = add(s0, X(unpacklo_epi8)(lo, zero), w);
        s1 = add(s1, X(unpackhi_epi8)(lo, zero), w);
        s2 = add(s2, X(unpacklo_epi8)(hi, zero), w);
        s3 = add(s3, X(unpackhi_epi8)(hi, zero), w);
    }
    keep(to, X(packs_epi32)(X(sra_epi32)(s0, shift), X(sra_epi32)(s1, shift)),
         X(packs_epi32)(X(sra_epi32)(s2, shift), X(sra_epi32)(s3, shift)));
}

INLINE void rows(int16_t *to, const uint8_t *from, ptrdiff_t stride, int n, const int16_t *weights, const int taps, const int lone, int shift)
{
    const VECTOR half = X(set1_epi32)(1 << (shift - 1));
    const __m128i by = _mm_cvtsi32_si128(shift);
    for (int i = 0; i < n; i += WIDTH) {
        if (i > n - WIDTH)
            i = n - WIDTH; /* the last ones overlap values already written */
        down_some(to + i, from + i, stride, weights, taps, lone, half, by);
    }
}

static TARGET void down(int16_t *to, const uint8_t *from, ptrdiff_t stride, int n, const int16_t *weights, int taps, int lone, int shift)
{
    if (n < WIDTH)
        FEWER(to, from, stride, n, weights, taps, lone, shift);
    else if (lone)
        rows(to, from, stride, n, weights, taps, 1, shift - BFS_LINE_BITS);
    else if (taps == 2)
        rows(to, from, stride, n, weights, 2, 0, shift - BFS_LINE_BITS);
    else if (taps == 4)
        rows(to, from, stride, n, weights, 4, 0, shift - BFS_LINE_BITS);
    else
        rows(to, from, stride, n, weights, taps, 0, shift - BFS_LINE_BITS);
}

#if LANES < 4 /* there is a better way for those */

static TARGET void arrange(int16_t *to, const int16_t *weights, const int32_t *at, int n, int taps, int channels)
{
    (void)at;
    bfs_arrange(to, weights, n, taps, channels, channels == 3 ? LANES : 1);
}

/* sums returns the sums for a pixel in each lane: red, green and blue. Each step pairs up the
 * channels of two pixels of the line, so that one instruction handles both. */
INLINE VECTOR sums(const int16_t *line, const int32_t *at, const int16_t *weights, const int taps, VECTOR sum)
{
    const VECTOR pairs = IN_LANES(_mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1));
    for (int t = 0; t < taps; t += 2, line += 6, weights += 8 * LANES)
        sum = add(sum, X(shuffle_epi8)(gather(line, at), pairs), LOAD(weights));
    return sum;
}

INLINE void pixels(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, const int taps, int shift)
{
    const VECTOR half = X(set1_epi32)(1 << (shift - 1));
    const VECTOR tight = IN_LANES(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __m128i by = _mm_cvtsi32_si128(shift);
    const int each = taps * 4 * LANES;
    for (int i = 0; i < n; i += 4 * LANES, at += 4 * LANES, to += 12 * LANES, weights += 4 * each) {
        const VECTOR s0 = X(sra_epi32)(sums(line, at, weights, taps, half), by);
        const VECTOR s1 = X(sra_epi32)(sums(line, at + 1, weights + each, taps, half), by);
        const VECTOR s2 = X(sra_epi32)(sums(line, at + 2, weights + 2 * each, taps, half), by);
        const VECTOR s3 = X(sra_epi32)(sums(line, at + 3, weights + 3 * each, taps, half), by);
        put(to, X(shuffle_epi8)(X(packus_epi16)(X(packs_epi32)(s0, s1), X(packs_epi32)(s2, s3)), tight));
    }
}

static TARGET void rgb(uint8_t *to, const int16_t *line, const int32_t *at, const int16_t *weights, int n, int taps, int shift)
{
    shift += BFS_LINE_BITS;
    if (taps == 2)
        pixels(to, line, at, weights, n, 2, shift);
    else if (taps == 4)
        pixels(to, line, at, weights, n, 4, shift);
    else if (taps == 6)
        pixels(to, line, at, weights, n, 6, shift);
    else
        pixels(to, line, at, weights, n, taps, shift);
}

#endif
