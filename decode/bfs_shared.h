//go:build cgo

/* Tables, and the arithmetic of single values, shared by the JPEG decoders and the GPU's. */
#ifndef BFS_SHARED_H
#define BFS_SHARED_H

#include <stddef.h>
#include <stdint.h>

#if defined(__CUDA__)
#define BFS_INLINE static __attribute__((device, always_inline))
#define BFS_TABLE static __attribute__((device)) const
#else
#define BFS_INLINE static inline __attribute__((always_inline))
#define BFS_TABLE static const
#endif

/* One component of an image. */
typedef struct {
    int id;
    int h, v;          /* sampling factors */
    int first;         /* its first block in an MCU, which has h*v of them */
    int width, height; /* in samples */
    int quant, dc, ac; /* its tables */
} bfs_component;

/* The codes of a DHT segment. */
typedef struct {
    int32_t limit[17];  /* the first code, left-aligned in 16 bits, that is longer than the index */
    int32_t offset[17]; /* of a length's symbols, less its first code */
    uint8_t symbol[256];
} bfs_codes;

typedef struct {
    uint8_t length; /* of the code; 0: there is none */
    uint8_t symbol;
} bfs_code;

/* bfs_codes_find finds the code that left-aligned bits begin with. */
BFS_INLINE bfs_code bfs_codes_find(const bfs_codes *c, uint64_t bits)
{
    const int32_t head = (int32_t)(bits >> 48);
    int length = 1;
    for (int i = 1; i <= 16; i++) /* without a branch, which could not be predicted */
        length += head >= c->limit[i];
    if (length > 16)
        return (bfs_code){0, 0};
    return (bfs_code){(uint8_t)length, c->symbol[(head >> (16 - length)) + c->offset[length]]};
}

/* Zigzag position to place in the block. */
BFS_TABLE uint8_t bfs_natural[64] = {
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

/* A quantization table in natural order, and limits for the coefficients of its first row:
 * libjpeg-turbo skips the multiplications of a block that has no other coefficients, and with them
 * their saturation, so larger ones are uncertain. No encoder writes larger ones. */
typedef struct {
    int16_t by[64];
    uint16_t limit[8];
} bfs_quant;

BFS_INLINE int bfs_clamp(int v, int low, int high) { return v < low ? low : v > high ? high : v; }

/* bfs_times2 adds two products in 32 bits, which wrap around. */
BFS_INLINE uint32_t bfs_times2(int16_t a, int x, int16_t b, int y) { return (uint32_t)(a * x) + (uint32_t)(b * y); }

BFS_INLINE int16_t bfs_shifted(uint32_t v, int shift) { return (int16_t)bfs_clamp((int32_t)v >> shift, INT16_MIN, INT16_MAX); }

/* bfs_idct transforms 8 values, step apart: libjpeg's accurate integer inverse transform (Loeffler,
 * Ligtenberg, Moschytz 1989, scaled by 2^13), with 16-bit sums and saturation at the same places as
 * in its vector code, so that even coefficients that no encoder writes give the same samples. */
BFS_INLINE void bfs_idct(int16_t *to, const int16_t *x, int step, const int shift)
{
    enum {
        C0298 = 2446, C0390 = 3196, C0541 = 4433, C0765 = 6270, C0899 = 7373, C1175 = 9633,
        C1501 = 12299, C1847 = 15137, C1961 = 16069, C2053 = 16819, C2562 = 20995, C3072 = 25172
    };
    const uint32_t round = 1u << (shift - 1);
    const int16_t x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step], x5 = x[5 * step], x6 = x[6 * step], x7 = x[7 * step];
    const uint32_t e3 = bfs_times2(x2, C0541 + C0765, x6, C0541), e2 = bfs_times2(x2, C0541, x6, C0541 - C1847);
    const uint32_t e0 = (uint32_t)(int16_t)(x0 + x4) * 8192u + round, e1 = (uint32_t)(int16_t)(x0 - x4) * 8192u + round;
    const int16_t z3 = (int16_t)(x7 + x3), z4 = (int16_t)(x5 + x1);
    const uint32_t s3 = bfs_times2(z3, C1175 - C1961, z4, C1175), s4 = bfs_times2(z3, C1175, z4, C1175 - C0390);
    const uint32_t o0 = bfs_times2(x7, -C0899, x1, C1501 - C0899) + s4, o1 = bfs_times2(x5, -C2562, x3, C3072 - C2562) + s3;
    const uint32_t o2 = bfs_times2(x5, C2053 - C2562, x3, -C2562) + s4, o3 = bfs_times2(x7, C0298 - C0899, x1, -C0899) + s3;
    to[0] = bfs_shifted(e0 + e3 + o0, shift);
    to[step] = bfs_shifted(e1 + e2 + o1, shift);
    to[2 * step] = bfs_shifted(e1 - e2 + o2, shift);
    to[3 * step] = bfs_shifted(e0 - e3 + o3, shift);
    to[4 * step] = bfs_shifted(e0 - e3 - o3, shift);
    to[5 * step] = bfs_shifted(e1 - e2 - o2, shift);
    to[6 * step] = bfs_shifted(e1 + e2 - o1, shift);
    to[7 * step] = bfs_shifted(e0 + e3 - o0, shift);
}

/* The colours of a pixel by JFIF, rounded like libjpeg's; factors are in 1/65536. 128 is already
 * subtracted from cb and cr. */
BFS_INLINE uint8_t bfs_red(int y, int cr) { return (uint8_t)bfs_clamp(y + ((91881 * cr + 32768) >> 16), 0, 255); }
BFS_INLINE uint8_t bfs_green(int y, int cb, int cr) { return (uint8_t)bfs_clamp(y + ((-22554 * cb - 46802 * cr + 32768) >> 16), 0, 255); }
BFS_INLINE uint8_t bfs_blue(int y, int cb) { return (uint8_t)bfs_clamp(y + ((116130 * cb + 32768) >> 16), 0, 255); }

#endif
