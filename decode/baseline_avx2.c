//go:build cgo

#include "bfs_baseline.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define LEVEL "avx2"
#define TARGET __attribute__((target(LEVEL)))
#define INLINE static inline __attribute__((always_inline, target(LEVEL)))
#define VECTOR __m256i
#define LANES 2
#define X(name) _mm256_##name
#define _mm256_loadu_si(p) _mm256_loadu_si256((const __m256i *)(p))
#define _mm256_storeu_si(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define _mm256_and_si _mm256_and_si256
#define ZERO _mm256_setzero_si256()
#define WIDEN(p) _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(p)))
#define ROW(p) _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(p)))
#define KERNEL bfs_baseline_avx2

/* PICK selects, from the k-th eighth of a block, the coefficients that belong to one row. z0 to z7
 * are the row's positions in zigzag order. */
#define FROM(z, k) ((z) / 8 == (k) ? 2 * ((z) % 8) : -1), ((z) / 8 == (k) ? 2 * ((z) % 8) + 1 : -1)
#define PICK_(k, z0, z1, z2, z3, z4, z5, z6, z7)                                                                       \
    _mm256_shuffle_epi8(eighth[k], _mm256_broadcastsi128_si256(_mm_setr_epi8(FROM(z0, k), FROM(z1, k), FROM(z2, k), FROM(z3, k), \
                                                                             FROM(z4, k), FROM(z5, k), FROM(z6, k), FROM(z7, k))))
#define PICK(...) PICK_(__VA_ARGS__)
#define OR _mm256_or_si256
#define THREE(a, b, c, ...) OR(OR(PICK(a, __VA_ARGS__), PICK(b, __VA_ARGS__)), PICK(c, __VA_ARGS__))
#define FIVE(a, b, c, d, e, ...) OR(OR(PICK(a, __VA_ARGS__), PICK(b, __VA_ARGS__)), THREE(c, d, e, __VA_ARGS__))

INLINE void load(VECTOR r[8], const int16_t *const in[2])
{
    VECTOR eighth[8];
    for (int i = 0; i < 8; i++)
        eighth[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_load_si128((const __m128i *)(in[0] + 8 * i))),
                                            _mm_load_si128((const __m128i *)(in[1] + 8 * i)), 1);
    r[0] = THREE(0, 1, 3, 0, 1, 5, 6, 14, 15, 27, 28);
    r[1] = FIVE(0, 1, 2, 3, 5, 2, 4, 7, 13, 16, 26, 29, 42);
    r[2] = FIVE(0, 1, 2, 3, 5, 3, 8, 12, 17, 25, 30, 41, 43);
    r[3] = FIVE(1, 2, 3, 5, 6, 9, 11, 18, 24, 31, 40, 44, 53);
    r[4] = FIVE(1, 2, 4, 5, 6, 10, 19, 23, 32, 39, 45, 52, 54);
    r[5] = FIVE(2, 4, 5, 6, 7, 20, 22, 33, 38, 46, 51, 55, 60);
    r[6] = FIVE(2, 4, 5, 6, 7, 21, 34, 37, 47, 50, 56, 59, 61);
    r[7] = THREE(4, 6, 7, 35, 36, 48, 49, 57, 58, 62, 63);
}

INLINE void store(uint8_t *to, ptrdiff_t stride, VECTOR rows)
{
    rows = _mm256_permute4x64_epi64(rows, 0xd8);
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(rows));
    _mm_storeu_si128((__m128i *)(to + stride), _mm256_extracti128_si256(rows, 1));
}

/* store4 writes four rows of 4 samples of each block; a block is a lane. */
INLINE void store4(uint8_t *to, ptrdiff_t stride, VECTOR rows)
{
    rows = _mm256_permutevar8x32_epi32(rows, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const __m128i low = _mm256_castsi256_si128(rows), high = _mm256_extracti128_si256(rows, 1);
    _mm_storel_epi64((__m128i *)to, low);
    _mm_storel_epi64((__m128i *)(to + stride), _mm_unpackhi_epi64(low, low));
    _mm_storel_epi64((__m128i *)(to + 2 * stride), high);
    _mm_storel_epi64((__m128i *)(to + 3 * stride), _mm_unpackhi_epi64(high, high));
}

/* store2 writes two rows of 2 samples of each block, which are the first 4 bytes of a lane. */
INLINE void store2(uint8_t *to, ptrdiff_t stride, VECTOR rows)
{
    const uint64_t both = (uint64_t)_mm_cvtsi128_si64(_mm_unpacklo_epi16(_mm256_castsi256_si128(rows), _mm256_extracti128_si256(rows, 1)));
    const uint32_t row[2] = {(uint32_t)both, (uint32_t)(both >> 32)};
    memcpy(to, &row[0], 4);
    memcpy(to + stride, &row[1], 4);
}

/* PLACES describes the 16 bytes of a lane's result that begin with byte 16*k: for those of colour
 * c, where they are among the lane's even and odd pixels. */
#define FROM_COLOUR(i, c) ((i) % 3 == (c) ? (i) / 6 + (i) / 3 % 2 * 8 : -1)
#define FOUR(i, c) FROM_COLOUR(i, c), FROM_COLOUR((i) + 1, c), FROM_COLOUR((i) + 2, c), FROM_COLOUR((i) + 3, c)
#define PLACES(k, c) _mm256_broadcastsi128_si256(_mm_setr_epi8(FOUR(16 * (k), c), FOUR(16 * (k) + 4, c), FOUR(16 * (k) + 8, c), FOUR(16 * (k) + 12, c)))
#define MERGE(k) OR(OR(_mm256_shuffle_epi8(r, PLACES(k, 0)), _mm256_shuffle_epi8(g, PLACES(k, 1))), _mm256_shuffle_epi8(b, PLACES(k, 2)))

INLINE void put(uint8_t *to, VECTOR r, VECTOR g, VECTOR b, int skip, int n)
{
    uint8_t all[96];
    uint8_t *whole = n == 32 ? to : all;
    const VECTOR out[3] = {MERGE(0), MERGE(1), MERGE(2)};
    for (int i = 0; i < 3; i++) {
        _mm_storeu_si128((__m128i *)(whole + 16 * i), _mm256_castsi256_si128(out[i]));
        _mm_storeu_si128((__m128i *)(whole + 48 + 16 * i), _mm256_extracti128_si256(out[i], 1));
    }
    if (n < 32)
        memcpy(to, all + 3 * skip, 3 * (size_t)n);
}

#include "bfs_lanes.h"

/* four makes 4 values from 8. The first one is in the upper half of 32 bits, the others are in
 * pairs; the fifth has no influence. */
INLINE void four(VECTOR to[4], VECTOR x0, VECTOR x13, VECTOR x57, VECTOR x26, const int shift)
{
    const VECTOR e = X(add_epi32)(X(srai_epi32)(x0, 2), X(set1_epi32)(1 << (shift - 1)));
    const VECTOR even = X(madd_epi16)(x26, PAIR(BFS_R1847, -BFS_R0765)), sum = X(add_epi32)(e, even), difference = X(sub_epi32)(e, even);
    const VECTOR outer = X(add_epi32)(X(madd_epi16)(x13, PAIR(BFS_R2562, BFS_R0899)), X(madd_epi16)(x57, PAIR(-BFS_R0601, -BFS_R0509)));
    const VECTOR inner = X(add_epi32)(X(madd_epi16)(x13, PAIR(BFS_R1061, -BFS_R2172)), X(madd_epi16)(x57, PAIR(BFS_R1451, -BFS_R0211)));
    to[0] = X(srai_epi32)(X(add_epi32)(sum, outer), shift);
    to[1] = X(srai_epi32)(X(add_epi32)(difference, inner), shift);
    to[2] = X(srai_epi32)(X(sub_epi32)(difference, inner), shift);
    to[3] = X(srai_epi32)(X(sub_epi32)(sum, outer), shift);
}

TARGET int bfs_idct4_avx2(const int16_t *block, int n, int group, ptrdiff_t step, const bfs_quant *q, uint8_t *to, ptrdiff_t stride)
{
    const VECTOR zero = ZERO;
    VECTOR largest = ZERO;
    for (int i = 0; i < n; i += LANES, to += 4 * LANES) {
        VECTOR r[8], low[4], high[4], row[4], out[4];
        largest = X(max_epu16)(largest, take(r, block, i, n, group, step, q));
        four(low, X(unpacklo_epi16)(zero, r[0]), X(unpacklo_epi16)(r[1], r[3]), X(unpacklo_epi16)(r[5], r[7]), X(unpacklo_epi16)(r[2], r[6]), 12);
        four(high, X(unpackhi_epi16)(zero, r[0]), X(unpackhi_epi16)(r[1], r[3]), X(unpackhi_epi16)(r[5], r[7]), X(unpackhi_epi16)(r[2], r[6]), 12);
        for (int k = 0; k < 4; k++)
            row[k] = X(packs_epi32)(low[k], high[k]);
        /* Columns of 4 values each, two columns in a lane. */
        const VECTOR a = X(unpacklo_epi16)(row[0], row[1]), b = X(unpacklo_epi16)(row[2], row[3]);
        const VECTOR c = X(unpackhi_epi16)(row[0], row[1]), d = X(unpackhi_epi16)(row[2], row[3]);
        const VECTOR x01 = X(unpacklo_epi32)(a, b), x23 = X(unpackhi_epi32)(a, b), x45 = X(unpacklo_epi32)(c, d), x67 = X(unpackhi_epi32)(c, d);
        four(out, X(unpacklo_epi16)(zero, x01), X(unpackhi_epi16)(x01, x23), X(unpackhi_epi16)(x45, x67), X(unpacklo_epi16)(x23, x67), 19);
        const VECTOR even = X(packs_epi32)(out[0], out[2]), odd = X(packs_epi32)(out[1], out[3]);
        const VECTOR left = X(unpacklo_epi16)(even, odd), right = X(unpackhi_epi16)(even, odd);
        store4(to, stride, samples(X(unpacklo_epi32)(left, right), X(unpackhi_epi32)(left, right)));
    }
    return certain(largest, q);
}

/* odd2 is the odd part of 2 values. */
INLINE VECTOR odd2(VECTOR x13, VECTOR x57)
{
    return X(add_epi32)(X(madd_epi16)(x13, PAIR(BFS_R3624, -BFS_R1272)), X(madd_epi16)(x57, PAIR(BFS_R0850, -BFS_R0720)));
}

TARGET int bfs_idct2_avx2(const int16_t *block, int n, int group, ptrdiff_t step, const bfs_quant *q, uint8_t *to, ptrdiff_t stride)
{
    const VECTOR zero = ZERO, round = X(set1_epi32)(1 << 12), round2 = X(set1_epi32)(1 << 19);
    const VECTOR factors = ROW(((const int16_t[8]){0, BFS_R3624, 0, -BFS_R1272, 0, BFS_R0850, 0, -BFS_R0720}));
    for (int i = 0; i < n; i += LANES, to += 2 * LANES) {
        VECTOR r[8], top[2], bottom[2];
        take(r, block, i, n, group, step, q);
        const VECTOR odd[2] = {odd2(X(unpacklo_epi16)(r[1], r[3]), X(unpacklo_epi16)(r[5], r[7])),
                               odd2(X(unpackhi_epi16)(r[1], r[3]), X(unpackhi_epi16)(r[5], r[7]))};
        const VECTOR even[2] = {X(unpacklo_epi16)(zero, r[0]), X(unpackhi_epi16)(zero, r[0])};
        for (int h = 0; h < 2; h++) {
            const VECTOR e = X(add_epi32)(X(srai_epi32)(even[h], 1), round);
            top[h] = X(srai_epi32)(X(add_epi32)(e, odd[h]), 13);
            bottom[h] = X(srai_epi32)(X(sub_epi32)(e, odd[h]), 13);
        }
        /* The products of each row's odd columns and their factors, to be summed. The first column
         * has 32 bits, as in libjpeg-turbo's vector code. */
        const VECTOR t = X(madd_epi16)(X(packs_epi32)(top[0], top[1]), factors), b = X(madd_epi16)(X(packs_epi32)(bottom[0], bottom[1]), factors);
        const VECTOR pairs = X(add_epi32)(X(unpacklo_epi32)(t, b), X(unpackhi_epi32)(t, b));
        const VECTOR sums = X(add_epi32)(pairs, X(shuffle_epi32)(pairs, 0x4e));
        const VECTOR e = X(add_epi32)(X(slli_epi32)(X(unpacklo_epi32)(top[0], bottom[0]), 15), round2);
        const VECTOR out = X(srai_epi32)(X(unpacklo_epi32)(X(add_epi32)(e, sums), X(sub_epi32)(e, sums)), 20);
        const VECTOR words = X(packs_epi32)(out, out);
        store2(to, stride, samples(words, words));
    }
    return 1;
}

#endif
