//go:build cgo

#include "bfs_baseline.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define LEVEL "avx512f,avx512bw,avx512vl,avx512vbmi"
#define TARGET __attribute__((target(LEVEL)))
#define INLINE static inline __attribute__((always_inline, target(LEVEL)))
#define VECTOR __m512i
#define LANES 4
#define X(name) _mm512_##name
#define _mm512_loadu_si _mm512_loadu_si512
#define _mm512_storeu_si _mm512_storeu_si512
#define _mm512_and_si _mm512_and_si512
#define ZERO _mm512_setzero_si512()
#define WIDEN(p) _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(p)))
#define ROW(p) _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(p)))
#define KERNEL bfs_baseline_avx512

/* Where the coefficients of rows 0 to 3 and 4 to 7 are in zigzag order. */
static const uint16_t zigzag[2][32] = {
    {0, 1, 5, 6, 14, 15, 27, 28, 2, 4, 7, 13, 16, 26, 29, 42, 3, 8, 12, 17, 25, 30, 41, 43, 9, 11, 18, 24, 31, 40, 44, 53},
    {10, 19, 23, 32, 39, 45, 52, 54, 20, 22, 33, 38, 46, 51, 55, 60, 21, 34, 37, 47, 50, 56, 59, 61, 35, 36, 48, 49, 57, 58, 62, 63},
};

INLINE void load_half(VECTOR r[4], const int16_t *const in[4], const uint16_t *places)
{
    const VECTOR order = _mm512_loadu_si512(places);
    VECTOR rows[4];
    for (int i = 0; i < 4; i++)
        rows[i] = _mm512_permutex2var_epi16(_mm512_load_si512(in[i]), order, _mm512_load_si512(in[i] + 32));
    const VECTOR a = _mm512_shuffle_i64x2(rows[0], rows[1], 0x44), b = _mm512_shuffle_i64x2(rows[0], rows[1], 0xee);
    const VECTOR c = _mm512_shuffle_i64x2(rows[2], rows[3], 0x44), d = _mm512_shuffle_i64x2(rows[2], rows[3], 0xee);
    r[0] = _mm512_shuffle_i64x2(a, c, 0x88);
    r[1] = _mm512_shuffle_i64x2(a, c, 0xdd);
    r[2] = _mm512_shuffle_i64x2(b, d, 0x88);
    r[3] = _mm512_shuffle_i64x2(b, d, 0xdd);
}

INLINE void load(VECTOR r[8], const int16_t *const in[4])
{
    load_half(r, in, zigzag[0]);
    load_half(r + 4, in, zigzag[1]);
}

INLINE void store(uint8_t *to, ptrdiff_t stride, VECTOR rows)
{
    rows = _mm512_permutexvar_epi64(_mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0), rows);
    _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(rows));
    _mm256_storeu_si256((__m256i *)(to + stride), _mm512_extracti64x4_epi64(rows, 1));
}

/* Byte i of the result belongs to pixel i/3, which is at EVEN_ODD(i) in a vector of even and odd
 * pixels. Red and green are picked together; BLUE says which bytes are blue. */
#define EVEN_ODD(i) (uint8_t)((i) / 48 * 16 + (i) / 6 % 8 + (i) / 3 % 2 * 8)
#define RED_GREEN(i) (uint8_t)(EVEN_ODD(i) + ((i) % 3 == 1) * 64)
#define EIGHT(F, i) F(i), F((i) + 1), F((i) + 2), F((i) + 3), F((i) + 4), F((i) + 5), F((i) + 6), F((i) + 7)
#define ALL(F, i) EIGHT(F, i), EIGHT(F, (i) + 8), EIGHT(F, (i) + 16), EIGHT(F, (i) + 24), \
                  EIGHT(F, (i) + 32), EIGHT(F, (i) + 40), EIGHT(F, (i) + 48), EIGHT(F, (i) + 56)
static const uint8_t red_green[3][64] = {{ALL(RED_GREEN, 0)}, {ALL(RED_GREEN, 64)}, {ALL(RED_GREEN, 128)}};
static const uint8_t blue[3][64] = {{ALL(EVEN_ODD, 0)}, {ALL(EVEN_ODD, 64)}, {ALL(EVEN_ODD, 128)}};
static const uint64_t is_blue[3] = {0x4924924924924924, 0x2492492492492492, 0x9249249249249249};

INLINE void put(uint8_t *to, VECTOR r, VECTOR g, VECTOR b, int skip, int n)
{
    VECTOR out[3];
    for (int i = 0; i < 3; i++)
        out[i] = _mm512_mask_permutexvar_epi8(_mm512_permutex2var_epi8(r, _mm512_loadu_si512(red_green[i]), g),
                                              is_blue[i], _mm512_loadu_si512(blue[i]), b);
    if (n == 64) {
        for (int i = 0; i < 3; i++)
            _mm512_storeu_si512(to + 64 * i, out[i]);
        return;
    }
    uint8_t all[192];
    for (int i = 0; i < 3; i++)
        _mm512_storeu_si512(all + 64 * i, out[i]);
    memcpy(to, all + 3 * skip, 3 * (size_t)n);
}

#include "bfs_lanes.h"

#endif
