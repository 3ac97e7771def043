//go:build cgo

#include "bfs_lossless.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { GROUP = 16, PAIR = 2 * GROUP };

static int padded_to_pairs(int width) { return (width + PAIR - 1) & ~(PAIR - 1); }

/* unpack_portable decodes a row, and overwrites the one above it. */
static void unpack_portable(uint8_t *row, int n, int how, const uint8_t *widths, const uint8_t *data)
{
    uint8_t sum = 0;
    for (int i = 0; i < n; i += 8) {
        const int w = widths[i / PAIR] >> (i / GROUP % 2 * 4) & 15;
        const uint64_t bits = bfs_load64(data);
        data += w;
        for (int k = 0; k < 8; k++) {
            const uint8_t r = (uint8_t)((int8_t)(uint8_t)(bits >> (k * w) << (8 - w)) >> (8 - w));
            sum = (uint8_t)(sum + r);
            row[i + k] = (uint8_t)(how == BFS_LEFT ? sum : row[i + k] + (how == BFS_ABOVE ? r : sum));
        }
    }
}

static void colour_portable(uint8_t *to, const uint8_t *planes, size_t stride, int n)
{
    for (int x = 0; x < n; x++) {
        const uint8_t g = planes[x];
        to[3 * x] = (uint8_t)(planes[stride + x] + g);
        to[3 * x + 1] = g;
        to[3 * x + 2] = (uint8_t)(planes[2 * stride + x] + g);
    }
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((target("avx2"), always_inline))

/* For each width, the two bytes that hold each value of a group, and the factor that moves the
 * value to the top of 16 bits. */
#define BYTES(w, i) ((i) * (w) >> 3), ((i) * (w) >> 3) + 1 < 16 ? ((i) * (w) >> 3) + 1 : 128
#define FACTOR(w, i) (int16_t)((w) ? 1 << ((16 - (w) - ((i) * (w) & 7)) & 15) : 0)
#define ALL(f, w) {f(w, 0), f(w, 1), f(w, 2), f(w, 3), f(w, 4), f(w, 5), f(w, 6), f(w, 7), f(w, 8), f(w, 9), f(w, 10), f(w, 11), f(w, 12), f(w, 13), f(w, 14), f(w, 15)}
#define WIDTHS(f) {ALL(f, 0), ALL(f, 1), ALL(f, 2), ALL(f, 3), ALL(f, 4), ALL(f, 5), ALL(f, 6), ALL(f, 7), ALL(f, 8)}
static const uint8_t bytes_of[9][32] __attribute__((aligned(32))) = WIDTHS(BYTES);
static const int16_t factor_of[9][16] __attribute__((aligned(32))) = WIDTHS(FACTOR);

/* residuals returns a group, sign-extended to 16 bits. */
AVX2_INLINE __m256i residuals(const uint8_t *data, int w)
{
    const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)data));
    const __m256i words = _mm256_shuffle_epi8(both, _mm256_load_si256((const __m256i *)bytes_of[w]));
    const __m256i top = _mm256_mullo_epi16(words, _mm256_load_si256((const __m256i *)factor_of[w]));
    return _mm256_sra_epi16(top, _mm_cvtsi32_si128(16 - w));
}

AVX2_INLINE void unpack_pairs(uint8_t *row, int n, const int how, const uint8_t *widths, const uint8_t *data)
{
    const __m256i last = _mm256_set1_epi8(15);
    __m256i carry = _mm256_setzero_si256(); /* the sum so far, in each byte */
    for (int i = 0; i < n; i += PAIR) {
        const int w0 = *widths & 15, w1 = *widths >> 4;
        widths++;
        const __m256i a = residuals(data, w0), b = residuals(data + 2 * w0, w1);
        data += 2 * (w0 + w1);
        __m256i v = _mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xd8);
        if (how != BFS_ABOVE) {
            v = _mm256_add_epi8(v, _mm256_bslli_epi128(v, 1));
            v = _mm256_add_epi8(v, _mm256_bslli_epi128(v, 2));
            v = _mm256_add_epi8(v, _mm256_bslli_epi128(v, 4));
            v = _mm256_add_epi8(v, _mm256_bslli_epi128(v, 8));
            const __m256i sums = _mm256_shuffle_epi8(v, last); /* of each half */
            v = _mm256_add_epi8(v, _mm256_permute2x128_si256(sums, sums, 0x08));
            v = _mm256_add_epi8(v, carry);
            carry = _mm256_add_epi8(carry, _mm256_add_epi8(sums, _mm256_permute2x128_si256(sums, sums, 0x01)));
        }
        if (how != BFS_LEFT)
            v = _mm256_add_epi8(v, _mm256_loadu_si256((const __m256i *)(row + i)));
        _mm256_storeu_si256((__m256i *)(row + i), v);
    }
}

AVX2 static void unpack_avx2(uint8_t *row, int n, int how, const uint8_t *widths, const uint8_t *data)
{
    if (how == BFS_LEFT)
        unpack_pairs(row, n, BFS_LEFT, widths, data);
    else if (how == BFS_ABOVE)
        unpack_pairs(row, n, BFS_ABOVE, widths, data);
    else
        unpack_pairs(row, n, BFS_GRADIENT, widths, data);
}

/* For each of the 48 bytes of 16 pixels: where in its plane it comes from; 128: it is from another
 * plane. */
#define FROM(c, i) ((i) % 3 == (c) ? (i) / 3 : 128)
#define SIXTEEN(c, i) {FROM(c, i), FROM(c, i + 1), FROM(c, i + 2), FROM(c, i + 3), FROM(c, i + 4), FROM(c, i + 5), FROM(c, i + 6), FROM(c, i + 7), FROM(c, i + 8), FROM(c, i + 9), FROM(c, i + 10), FROM(c, i + 11), FROM(c, i + 12), FROM(c, i + 13), FROM(c, i + 14), FROM(c, i + 15)}
static const uint8_t from_plane[3][3][16] __attribute__((aligned(16))) = {
    {SIXTEEN(0, 0), SIXTEEN(1, 0), SIXTEEN(2, 0)},
    {SIXTEEN(0, 16), SIXTEEN(1, 16), SIXTEEN(2, 16)},
    {SIXTEEN(0, 32), SIXTEEN(1, 32), SIXTEEN(2, 32)},
};

AVX2_INLINE __m256i in_place(__m256i plane, int third, int c)
{
    return _mm256_shuffle_epi8(plane, _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)from_plane[third][c])));
}

AVX2 static void colour_avx2(uint8_t *to, const uint8_t *planes, size_t stride, int n)
{
    int x = 0;
    for (; x + PAIR <= n; x += PAIR, to += 3 * PAIR) {
        const __m256i g = _mm256_loadu_si256((const __m256i *)(planes + x));
        const __m256i r = _mm256_add_epi8(g, _mm256_loadu_si256((const __m256i *)(planes + stride + x)));
        const __m256i b = _mm256_add_epi8(g, _mm256_loadu_si256((const __m256i *)(planes + 2 * stride + x)));
        for (int i = 0; i < 3; i++) {
            const __m256i v = _mm256_or_si256(_mm256_or_si256(in_place(r, i, 0), in_place(g, i, 1)), in_place(b, i, 2));
            _mm_storeu_si128((__m128i *)(to + 16 * i), _mm256_castsi256_si128(v));
            _mm_storeu_si128((__m128i *)(to + 48 + 16 * i), _mm256_extracti128_si256(v, 1));
        }
    }
    colour_portable(to, planes + x, stride, n - x);
}
#else
#define unpack_avx2 unpack_portable
#define colour_avx2 colour_portable
#endif

/* row_size returns the bytes of a row of a plane, 0 if they are damaged or incomplete. */
static size_t row_size(const uint8_t *from, size_t size, int n)
{
    const size_t head = 1 + n / PAIR;
    if (size < head || from[0] > BFS_GRADIENT)
        return 0;
    uint32_t sum = 0;
    int wrong = 0;
    for (size_t i = 1; i < head; i++) {
        const int a = from[i] & 15, b = from[i] >> 4;
        sum += (uint32_t)(a + b);
        wrong |= (a > 8) | (b > 8);
    }
    const size_t all = head + 2 * (size_t)sum;
    return wrong || size < all ? 0 : all;
}

/* narrow reduces 16 bits to 8, round(v / 257). more is the low bytes minus the high ones. */
static void narrow(uint8_t *high, const uint8_t *more, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int d = (uint8_t)(high[i] + more[i]) - high[i];
        high[i] = (uint8_t)(high[i] + (d > 128) - (d < -128));
    }
}

/* show writes n pixels from their planes. With 16-bit samples, the second byte's plane is lows
 * bytes after the first one's. rgb has room for two rows. The entries of a palette are bytes if
 * they are grays. */
static void show(uint8_t *to, uint8_t *planes, size_t stride, size_t lows, const bfs_band *b, const uint32_t *palette, uint8_t *rgb)
{
    const int n = b->w, colour = b->pixels == BFS_RGB || b->pixels == BFS_RGBA;
    if (colour) {
        void (*const colour_of)(uint8_t *, const uint8_t *, size_t, int) = b->avx2 ? colour_avx2 : colour_portable;
        uint8_t *at = b->channels == 3 ? to : rgb;
        colour_of(at, planes, stride, n);
        if (b->wide) {
            uint8_t *const more = rgb + 3 * (size_t)b->width;
            colour_of(more, planes + lows, stride, n);
            narrow(at, more, 3 * (size_t)n);
        }
        if (b->channels == 1)
            bfs_gray(to, rgb, n);
        return;
    }
    if (b->wide) {
        memcpy(rgb, planes, n); /* the row is also the one above the next */
        narrow(rgb, planes + lows, n);
        planes = rgb;
    }
    if (b->pixels == BFS_INDEX && b->channels == 3) {
        bfs_colours(to, planes, (size_t)n, palette);
    } else if (b->pixels == BFS_INDEX) {
        for (int x = 0; x < n; x++)
            to[x] = (uint8_t)palette[planes[x]];
    } else if (b->channels == 1) {
        memcpy(to, planes, n);
    } else {
        for (int x = 0; x < n; x++)
            to[3 * x] = to[3 * x + 1] = to[3 * x + 2] = planes[x];
    }
}

static void read_palette(uint32_t to[256], const uint8_t *palette, int channels)
{
    for (int i = 0; i < 256; i++, palette += 3)
        to[i] = channels == 1 ? bfs_luma(palette[0], palette[1], palette[2]) : palette[0] | (uint32_t)palette[1] << 8 | (uint32_t)palette[2] << 16;
}

/* bfs_lossless_band decodes rows of a band of size bytes. 80 more bytes must be readable. */
int bfs_lossless_band(bfs_kept *k, const uint8_t *from, size_t size, const uint8_t *palette, uint8_t *to, bfs_band b)
{
    const int samples = b.pixels == BFS_INDEX ? 1 : b.pixels, planes = samples << b.wide, n = padded_to_pairs(b.width);
    const int shown = samples < 3 ? 1 : 3; /* alpha is not shown */
    const size_t stride = (size_t)n + PAIR, line = (size_t)b.w * b.channels;
    const int direct = b.dx == b.channels;
    uint8_t *work = bfs_grow(k, planes * stride + (size_t)b.width * 3 * (BFS_STRIP + 2));
    if (!work)
        return bfs_fail(k, BFS_MEMORY, "no memory for rows");
    uint8_t *rgb = work + planes * stride, *strip = rgb + (size_t)b.width * 3 * 2;
    memset(work, 0, planes * stride);
    uint32_t colours[256];
    if (palette)
        read_palette(colours, palette, b.channels);
    for (int y = 0; y < b.skip + b.rows; y++) {
        for (int c = 0; c < planes; c++) {
            const size_t all = row_size(from, size, n);
            if (!all)
                return bfs_fail(k, BFS_CORRUPT, "residuals of an impossible width, or that end early");
            if (c % samples < shown)
                (b.avx2 ? unpack_avx2 : unpack_portable)(work + c * stride, n, from[0], from + 1, from + 1 + n / PAIR);
            from += all;
            size -= all;
        }
        const int row = y - b.skip;
        if (row >= 0)
            show(direct ? to + row * b.dy : strip + row * line, work + b.x, stride, samples * stride, &b, colours, rgb);
    }
    if (!direct)
        bfs_place(to, b.dx, b.dy, b.channels, strip, line, b.w, b.rows);
    return BFS_OK;
}

/* PAIR zeros precede a row that is packed, so that the value to the left of its first one can be
 * read. residual returns the residual of value x. */
static inline __attribute__((always_inline)) uint8_t residual(const uint8_t *row, const uint8_t *above, int x, const int how)
{
    const uint8_t left = (uint8_t)(row[x] - row[x - 1]);
    return how == BFS_LEFT    ? left
           : how == BFS_ABOVE ? (uint8_t)(row[x] - above[x])
                              : (uint8_t)(left - above[x] + above[x - 1]);
}

/* unsigned_of maps residuals to unsigned numbers that have as many bits as the residual needs. */
static inline __attribute__((always_inline)) uint8_t unsigned_of(uint8_t r) { return (uint8_t)(r << 1 ^ ((int8_t)r >> 7)); }

/* find_widths finds, for each prediction, the stored widths of a row's groups, and their sum. */
static void find_widths_portable(uint8_t *widths[3], uint32_t sums[3], const uint8_t *row, const uint8_t *above, int n)
{
    for (int x = 0; x < n; x += GROUP) {
        uint8_t any[3] = {0, 0, 0};
        for (int i = x; i < x + GROUP; i++) {
            any[BFS_LEFT] |= unsigned_of(residual(row, above, i, BFS_LEFT));
            any[BFS_ABOVE] |= unsigned_of(residual(row, above, i, BFS_ABOVE));
            any[BFS_GRADIENT] |= unsigned_of(residual(row, above, i, BFS_GRADIENT));
        }
        for (int how = BFS_LEFT; how <= BFS_GRADIENT; how++) {
            const int w = any[how] ? 32 - __builtin_clz(any[how]) : 0;
            uint8_t *const pair = &widths[how][x / PAIR];
            *pair = (uint8_t)(x % PAIR ? *pair | w << 4 : w);
            sums[how] += (uint32_t)w;
        }
    }
}

/* squeeze joins the lowest w bits of eight bytes. */
static uint64_t squeeze(uint64_t v, int w)
{
    v &= 0x0101010101010101u * ((1u << w) - 1);
    v = (v & 0x00ff00ff00ff00ffu) | (v & 0xff00ff00ff00ff00u) >> (8 - w);
    v = (v & 0x0000ffff0000ffffu) | (v & 0xffff0000ffff0000u) >> (16 - 2 * w);
    return (v & 0xffffffffu) | v >> 32 << (4 * w);
}

/* put_residuals writes a row's residuals in the widths that were found, and returns their end. */
static uint8_t *put_residuals_portable(uint8_t *to, const uint8_t *widths, const uint8_t *row, const uint8_t *above, int n, int how)
{
    for (int x = 0; x < n; x += 8) {
        const int w = widths[x / PAIR] >> (x / GROUP % 2 * 4) & 15;
        uint8_t r[8];
        for (int i = 0; i < 8; i++)
            r[i] = residual(row, above, x + i, how);
        bfs_store64(to, squeeze(bfs_load64(r), w));
        to += w;
    }
    return to;
}

/* split extracts a channel from pixels that are step bytes apart, and subtracts their green if that
 * is given. */
static void split(uint8_t *to, const uint8_t *from, const uint8_t *green, int n, int step)
{
    for (int x = 0; x < n; x++)
        to[x] = (uint8_t)(from[x * step] - (green ? green[x * step] : 0));
}

static void split_rgb_portable(uint8_t *to, size_t stride, const uint8_t *rgb, int n)
{
    split(to, rgb + 1, NULL, n, 3);
    split(to + stride, rgb, rgb + 1, n, 3);
    split(to + 2 * stride, rgb + 2, rgb + 1, n, 3);
}

#if defined(__x86_64__)
AVX2_INLINE __m256i residuals_of(const uint8_t *row, const uint8_t *above, const int how)
{
    const __m256i v = _mm256_loadu_si256((const __m256i *)row);
    if (how == BFS_ABOVE)
        return _mm256_sub_epi8(v, _mm256_loadu_si256((const __m256i *)above));
    const __m256i left = _mm256_sub_epi8(v, _mm256_loadu_si256((const __m256i *)(row - 1)));
    if (how == BFS_LEFT)
        return left;
    return _mm256_sub_epi8(left, _mm256_sub_epi8(_mm256_loadu_si256((const __m256i *)above),
                                                 _mm256_loadu_si256((const __m256i *)(above - 1))));
}

/* any_of combines the numbers that unsigned_of makes by OR: the 16 of each half become its lower 8
 * bytes. */
AVX2_INLINE __m256i any_of(__m256i r)
{
    const __m256i v = _mm256_xor_si256(_mm256_add_epi8(r, r), _mm256_cmpgt_epi8(_mm256_setzero_si256(), r));
    return _mm256_or_si256(v, _mm256_bsrli_epi128(v, 8));
}

AVX2 static void find_widths_avx2(uint8_t *widths[3], uint32_t sums[3], const uint8_t *row, const uint8_t *above, int n)
{
    const __m256i low = _mm256_set1_epi8(15), byte = _mm256_set1_epi64x(255);
    const __m256i bits = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4));
    const __m256i bits_of_high = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 5, 6, 6, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8));
    uint8_t *restrict const of_left = widths[BFS_LEFT], *restrict const of_above = widths[BFS_ABOVE], *restrict const of_gradient = widths[BFS_GRADIENT];
    __m256i first = _mm256_setzero_si256(), second = _mm256_setzero_si256();
    for (int x = 0, i = 0; x < n; x += PAIR, i++) {
        const __m256i left = any_of(residuals_of(row + x, above + x, BFS_LEFT));
        const __m256i up = any_of(residuals_of(row + x, above + x, BFS_ABOVE));
        const __m256i gradient = any_of(residuals_of(row + x, above + x, BFS_GRADIENT));
        __m256i a = _mm256_unpacklo_epi64(left, up);
        a = _mm256_or_si256(a, _mm256_srli_epi64(a, 32));
        a = _mm256_or_si256(a, _mm256_srli_epi64(a, 16));
        a = _mm256_or_si256(a, _mm256_srli_epi64(a, 8));
        __m256i b = _mm256_unpacklo_epi64(gradient, _mm256_setzero_si256());
        b = _mm256_or_si256(b, _mm256_srli_epi64(b, 32));
        b = _mm256_or_si256(b, _mm256_srli_epi64(b, 16));
        b = _mm256_or_si256(b, _mm256_srli_epi64(b, 8));
        /* Each half has all of left in byte 0, of gradient in byte 1, and of up in byte 8. */
        const __m256i any = _mm256_or_si256(_mm256_and_si256(a, byte), _mm256_slli_epi64(_mm256_and_si256(b, byte), 8));
        const __m256i w = _mm256_max_epu8(_mm256_shuffle_epi8(bits, _mm256_and_si256(any, low)),
                                          _mm256_shuffle_epi8(bits_of_high, _mm256_and_si256(_mm256_srli_epi64(any, 4), low)));
        first = _mm256_add_epi64(first, _mm256_and_si256(w, byte));
        second = _mm256_add_epi64(second, _mm256_srli_epi64(w, 8));
        const __m128i pair = _mm_or_si128(_mm256_castsi256_si128(w), _mm_slli_epi16(_mm256_extracti128_si256(w, 1), 4));
        of_left[i] = (uint8_t)_mm_extract_epi8(pair, 0);
        of_above[i] = (uint8_t)_mm_extract_epi8(pair, 8);
        of_gradient[i] = (uint8_t)_mm_extract_epi8(pair, 1);
    }
    const __m128i a = _mm_add_epi64(_mm256_castsi256_si128(first), _mm256_extracti128_si256(first, 1));
    const __m128i b = _mm_add_epi64(_mm256_castsi256_si128(second), _mm256_extracti128_si256(second, 1));
    sums[BFS_LEFT] = (uint32_t)_mm_cvtsi128_si32(a);
    sums[BFS_ABOVE] = (uint32_t)_mm_extract_epi32(a, 2);
    sums[BFS_GRADIENT] = (uint32_t)_mm_cvtsi128_si32(b);
}

/* put_group writes the lowest w bits of 16 bytes: it joins two bytes, then four, then eight. */
AVX2_INLINE void put_group(uint8_t *to, __m128i v, int w)
{
    const __m128i one = _mm_cvtsi32_si128(w), two = _mm_cvtsi32_si128(2 * w), four = _mm_cvtsi32_si128(4 * w);
    v = _mm_and_si128(v, _mm_set1_epi8((char)((1 << w) - 1)));
    v = _mm_or_si128(_mm_and_si128(v, _mm_set1_epi16(0xff)), _mm_sll_epi16(_mm_srli_epi16(v, 8), one));
    v = _mm_or_si128(_mm_and_si128(v, _mm_set1_epi32(0xffff)), _mm_sll_epi32(_mm_srli_epi32(v, 16), two));
    v = _mm_or_si128(_mm_and_si128(v, _mm_set1_epi64x(0xffffffff)), _mm_sll_epi64(_mm_srli_epi64(v, 32), four));
    _mm_storel_epi64((__m128i *)to, v);
    _mm_storel_epi64((__m128i *)(to + w), _mm_unpackhi_epi64(v, v));
}

AVX2_INLINE uint8_t *put_pairs(uint8_t *to, const uint8_t *widths, const uint8_t *row, const uint8_t *above, int n, const int how)
{
    for (int x = 0; x < n; x += PAIR) {
        const int w0 = *widths & 15, w1 = *widths >> 4;
        const __m256i r = residuals_of(row + x, above + x, how);
        widths++;
        put_group(to, _mm256_castsi256_si128(r), w0);
        put_group(to + 2 * w0, _mm256_extracti128_si256(r, 1), w1);
        to += 2 * (w0 + w1);
    }
    return to;
}

AVX2 static uint8_t *put_residuals_avx2(uint8_t *to, const uint8_t *widths, const uint8_t *row, const uint8_t *above, int n, int how)
{
    return how == BFS_LEFT    ? put_pairs(to, widths, row, above, n, BFS_LEFT)
           : how == BFS_ABOVE ? put_pairs(to, widths, row, above, n, BFS_ABOVE)
                              : put_pairs(to, widths, row, above, n, BFS_GRADIENT);
}

/* The inverse of from_plane: for each of a plane's 16 bytes, where it is in each third of 48
 * bytes. */
#define OF(c, i, t) (3 * (i) + (c)) / 16 == (t) ? (3 * (i) + (c)) % 16 : 128
#define THIRD(c, t) {OF(c, 0, t), OF(c, 1, t), OF(c, 2, t), OF(c, 3, t), OF(c, 4, t), OF(c, 5, t), OF(c, 6, t), OF(c, 7, t), OF(c, 8, t), OF(c, 9, t), OF(c, 10, t), OF(c, 11, t), OF(c, 12, t), OF(c, 13, t), OF(c, 14, t), OF(c, 15, t)}
static const uint8_t to_plane[3][3][16] __attribute__((aligned(16))) = {
    {THIRD(0, 0), THIRD(0, 1), THIRD(0, 2)},
    {THIRD(1, 0), THIRD(1, 1), THIRD(1, 2)},
    {THIRD(2, 0), THIRD(2, 1), THIRD(2, 2)},
};

AVX2_INLINE __m256i plane_of(const __m256i third[3], int c)
{
    __m256i v = _mm256_setzero_si256();
    for (int t = 0; t < 3; t++)
        v = _mm256_or_si256(v, _mm256_shuffle_epi8(third[t], _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)to_plane[c][t]))));
    return v;
}

AVX2 static void split_rgb_avx2(uint8_t *to, size_t stride, const uint8_t *rgb, int n)
{
    int x = 0;
    for (; x + PAIR <= n; x += PAIR, rgb += 3 * PAIR) {
        __m256i third[3];
        for (int t = 0; t < 3; t++)
            third[t] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(rgb + 16 * t))),
                                               _mm_loadu_si128((const __m128i *)(rgb + 48 + 16 * t)), 1);
        const __m256i g = plane_of(third, 1);
        _mm256_storeu_si256((__m256i *)(to + x), g);
        _mm256_storeu_si256((__m256i *)(to + stride + x), _mm256_sub_epi8(plane_of(third, 0), g));
        _mm256_storeu_si256((__m256i *)(to + 2 * stride + x), _mm256_sub_epi8(plane_of(third, 2), g));
    }
    split_rgb_portable(to + x, stride, rgb, n - x);
}
#else
#define find_widths_avx2 find_widths_portable
#define put_residuals_avx2 put_residuals_portable
#define split_rgb_avx2 split_rgb_portable
#endif

/* split_all makes planes of interleaved ones. */
static void split_all(uint8_t *to, size_t stride, const uint8_t *pix, int n, int planes, int avx2)
{
    static const int channel[] = {1, 0, 2, 3};
    if (planes == 1)
        memcpy(to, pix, n);
    else if (planes == 3)
        (avx2 ? split_rgb_avx2 : split_rgb_portable)(to, stride, pix, n);
    else
        for (int c = 0; c < planes; c++)
            split(to + c * stride, pix + (planes == 2 ? c : channel[c]), planes == 4 && (c == 1 || c == 2) ? pix + 1 : NULL, n, planes);
}

/* bfs_lossless_pack packs a row of interleaved planes, and returns its size. It makes the row's
 * planes at row, and reads those of the row above it at above. A plane consists of PAIR zeros and
 * then its values, padded to pairs of groups. work has room for three bytes for each pair of a
 * plane. Up to 8 bytes after the packed row are overwritten. */
size_t bfs_lossless_pack(uint8_t *to, const uint8_t *pix, int width, int planes, uint8_t *row, const uint8_t *above, uint8_t *work, int avx2)
{
    const int n = padded_to_pairs(width), pairs = n / PAIR;
    const size_t stride = (size_t)n + PAIR;
    const uint8_t *start = to;
    row += PAIR;
    above += PAIR;
    split_all(row, stride, pix, width, planes, avx2);
    for (int c = 0; c < planes; c++, row += stride, above += stride) {
        uint8_t *widths[3] = {work, work + pairs, work + 2 * (size_t)pairs};
        uint32_t sums[3] = {0, 0, 0};
        memset(row + width, row[width - 1], n - width);
        (avx2 ? find_widths_avx2 : find_widths_portable)(widths, sums, row, above, n);
        int best = BFS_LEFT;
        for (int how = BFS_ABOVE; how <= BFS_GRADIENT; how++)
            best = sums[how] < sums[best] ? how : best;
        *to++ = (uint8_t)best;
        memcpy(to, widths[best], pairs);
        to = (avx2 ? put_residuals_avx2 : put_residuals_portable)(to + pairs, widths[best], row, above, n, best);
    }
    return to - start;
}
