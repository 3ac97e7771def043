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

/* PICK takes from the k-th eighth of a block the coefficients of one row that are in it. z0 to z7
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

/* PLACES says from where, in the even and odd pixels of a lane, bytes 16*k on of its result come
 * if they are of colour c. */
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

#endif
