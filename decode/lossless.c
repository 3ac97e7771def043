//go:build cgo

#include "bfs_lossless.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { GROUP = 16, PAIR = 2 * GROUP };

static int padded_to_pairs(int width) { return (width + PAIR - 1) & ~(PAIR - 1); }

static uint64_t load8(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* unpack_portable decodes a row in place of the one above it. */
static void unpack_portable(uint8_t *row, int n, int how, const uint8_t *widths, const uint8_t *data)
{
    uint8_t sum = 0;
    for (int i = 0; i < n; i += 8) {
        const int w = widths[i / PAIR] >> (i / GROUP % 2 * 4) & 15;
        const uint64_t bits = load8(data);
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

/* Of 16 pixels' 48 bytes, where each byte comes from in its plane; 128: from another plane. */
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

/* row_size returns the bytes of a row of a plane, 0 if they are damaged or not all there. */
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

/* show writes n pixels from their planes. */
static void show(uint8_t *to, const uint8_t *planes, size_t stride, const bfs_band *b, const uint8_t *palette, uint8_t *rgb)
{
    const int n = b->w;
    if (b->pixels == BFS_RGB || b->pixels == BFS_RGBA) {
        uint8_t *at = b->channels == 3 ? to : rgb;
        (b->avx2 ? colour_avx2 : colour_portable)(at, planes, stride, n);
        if (b->channels == 1)
            bfs_gray(to, rgb, n);
    } else if (b->pixels == BFS_INDEX) {
        uint8_t *at = b->channels == 3 ? to : rgb;
        for (int x = 0; x < n; x++)
            memcpy(at + 3 * x, palette + 3 * planes[x], 3);
        if (b->channels == 1)
            bfs_gray(to, rgb, n);
    } else if (b->channels == 1) {
        memcpy(to, planes, n);
    } else {
        for (int x = 0; x < n; x++)
            to[3 * x] = to[3 * x + 1] = to[3 * x + 2] = planes[x];
    }
}

/* bfs_lossless_band decodes rows of a band of size bytes, after which 80 more can be read. */
int bfs_lossless_band(bfs_kept *k, const uint8_t *from, size_t size, const uint8_t *palette, uint8_t *to, bfs_band b)
{
    const int planes = b.pixels == BFS_INDEX ? 1 : b.pixels, n = padded_to_pairs(b.width);
    const int shown = planes < 3 ? 1 : 3; /* alpha is not */
    const size_t stride = (size_t)n + PAIR, line = (size_t)b.w * b.channels;
    const int direct = b.dx == b.channels;
    uint8_t *work = bfs_grow(k, 4 * stride + (size_t)b.width * 3 * (BFS_STRIP + 1));
    if (!work)
        return bfs_fail(k, BFS_MEMORY, "no memory for rows");
    uint8_t *rgb = work + 4 * stride, *strip = rgb + (size_t)b.width * 3;
    memset(work, 0, planes * stride);
    for (int y = 0; y < b.skip + b.rows; y++) {
        for (int c = 0; c < planes; c++) {
            const size_t all = row_size(from, size, n);
            if (!all)
                return bfs_fail(k, BFS_CORRUPT, "residuals of an impossible width, or that end early");
            if (c < shown)
                (b.avx2 ? unpack_avx2 : unpack_portable)(work + c * stride, n, from[0], from + 1, from + 1 + n / PAIR);
            from += all;
            size -= all;
        }
        const int row = y - b.skip;
        if (row >= 0)
            show(direct ? to + row * b.dy : strip + row * line, work + b.x, stride, &b, palette, rgb);
    }
    if (!direct)
        bfs_place(to, b.dx, b.dy, b.channels, strip, line, b.w, b.rows);
    return BFS_OK;
}

/* width_of returns the bits that each residual of a group needs. */
static int width_of(const uint8_t *r)
{
    const uint64_t ones = 0x0101010101010101u;
    const uint64_t a = load8(r), b = load8(r + 8);
    uint64_t m = (a ^ (a >> 7 & ones) * 255) | (b ^ (b >> 7 & ones) * 255); /* without signs */
    m |= m >> 32;
    m |= m >> 16;
    m |= m >> 8;
    m &= 255;
    return m ? 33 - __builtin_clz((uint32_t)m) : (a | b) != 0;
}

/* squeeze joins the lowest w bits of eight bytes. */
static uint64_t squeeze(uint64_t v, int w)
{
    v &= 0x0101010101010101u * ((1u << w) - 1);
    v = (v & 0x00ff00ff00ff00ffu) | (v & 0xff00ff00ff00ff00u) >> (8 - w);
    v = (v & 0x0000ffff0000ffffu) | (v & 0xffff0000ffff0000u) >> (16 - 2 * w);
    return (v & 0xffffffffu) | v >> 32 << (4 * w);
}

/* residuals_of computes the residuals of each prediction. Without "restrict", compilers would not
 * use vectors. */
static void residuals_of(uint8_t *restrict left, uint8_t *restrict up, uint8_t *restrict gradient,
                         const uint8_t *restrict row, const uint8_t *restrict above, int n)
{
    left[0] = row[0];
    up[0] = gradient[0] = (uint8_t)(row[0] - above[0]);
    for (int x = 1; x < n; x++) {
        left[x] = (uint8_t)(row[x] - row[x - 1]);
        up[x] = (uint8_t)(row[x] - above[x]);
        gradient[x] = (uint8_t)(row[x] - row[x - 1] - above[x] + above[x - 1]);
    }
}

static uint8_t *pack_plane(uint8_t *to, const uint8_t *row, const uint8_t *above, int n, uint8_t *work)
{
    residuals_of(work, work + n, work + 2 * (size_t)n, row, above, n);
    int best = 0;
    uint32_t least = UINT32_MAX;
    for (int how = BFS_LEFT; how <= BFS_GRADIENT; how++) {
        uint32_t bits = 0;
        for (int x = 0; x < n; x += GROUP)
            bits += (uint32_t)width_of(work + (size_t)how * n + x);
        if (bits < least) {
            least = bits;
            best = how;
        }
    }
    const uint8_t *r = work + (size_t)best * n;
    uint8_t *widths = to + 1;
    *to = (uint8_t)best;
    to = widths + n / PAIR;
    for (int x = 0; x < n; x += GROUP) {
        const int w = width_of(r + x);
        widths[x / PAIR] = (uint8_t)(x % PAIR ? widths[x / PAIR] | w << 4 : w);
        for (int i = 0; i < GROUP; i += 8, to += w) {
            const uint64_t v = squeeze(load8(r + x + i), w);
            memcpy(to, &v, 8);
        }
    }
    return to;
}

/* split takes a channel out of pixels that are step bytes apart, less their green if that is given. */
static inline __attribute__((always_inline)) void
split(uint8_t *restrict to, const uint8_t *restrict from, const uint8_t *restrict green, int n, const int step)
{
    for (int x = 0; x < n; x++)
        to[x] = (uint8_t)(from[x * step] - (green ? green[x * step] : 0));
}

/* bfs_lossless_pack packs a row of interleaved planes, and returns its size. above has the planes'
 * previous row, and gets this one; work has room for four rows of a plane. Up to 8 bytes after the row
 * are overwritten. */
size_t bfs_lossless_pack(uint8_t *to, const uint8_t *pix, int width, int planes, uint8_t *above, uint8_t *work)
{
    const int n = padded_to_pairs(width);
    const uint8_t *start = to;
    uint8_t *row = work + 3 * (size_t)n;
    for (int c = 0; c < planes; c++, above += n) {
        static const int channel[] = {1, 0, 2, 3};
        const uint8_t *from = pix + (planes < 3 ? c : channel[c]);
        const uint8_t *green = planes >= 3 && (c == 1 || c == 2) ? pix + 1 : NULL;
        if (planes == 1)
            memcpy(row, from, width);
        else if (planes != 3)
            split(row, from, green, width, planes);
        else if (green)
            split(row, from, pix + 1, width, 3);
        else
            split(row, from, NULL, width, 3);
        memset(row + width, row[width - 1], n - width);
        to = pack_plane(to, row, above, n, work);
        memcpy(above, row, n);
    }
    return to - start;
}
