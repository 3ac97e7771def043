//go:build cgo

#include "bfs_tiers.h"

/* bits returns at least 57 bits, starting at bit at. */
static inline __attribute__((always_inline)) uint64_t bits(const uint8_t *p, size_t at)
{
    return bfs_load64(p + at / 8) >> at % 8;
}

/* bits64 returns 64 bits. */
static inline __attribute__((always_inline)) uint64_t bits64(const uint8_t *p, size_t at)
{
    return bits(p, at) | ((uint64_t)p[at / 8 + 8] << 1) << (63 - at % 8);
}

/* Positions in streams, in each stream's unit: bits, nibbles or bytes. All positions count from the
 * same byte, which takes one register instead of six. */
typedef struct {
    const uint8_t *base;
    size_t at[BFS_TIERS_STREAMS];
} places;

enum { M = BFS_TIERS_M, P, Q, N, V, W };

static inline places places_of(const uint8_t *const from[BFS_TIERS_STREAMS])
{
    places s = {.base = from[M]};
    static const uint8_t units[BFS_TIERS_STREAMS] = {8, 8, 8, 2, 1, 1}; /* of a byte */
    for (int i = 0; i < BFS_TIERS_STREAMS; i++)
        s.at[i] = (size_t)(from[i] - s.base) * units[i];
    return s;
}

static inline void leave(const uint8_t *from[BFS_TIERS_STREAMS], const places *s)
{
    for (int i = M; i <= Q; i++)
        from[i] = s->base + (s->at[i] + 7) / 8;
    from[N] = s->base + (s->at[N] + 1) / 2;
    from[V] = s->base + s->at[V];
    from[W] = s->base + s->at[W];
}

/* The DC coefficients of a chunk. */
typedef struct {
    int32_t before[3];
    const uint8_t *component, *first, *last;
    int beyond; /* one does not fit in 16 bits */
} predictor;

static inline predictor predictor_of(const bfs_tiers_mcu *mcu)
{
    return (predictor){.component = mcu->component,
                       .first = mcu->component,
                       .last = mcu->component + mcu->count - 1};
}

static inline __attribute__((always_inline)) int next_component(predictor *p)
{
    const int c = *p->component;
    p->component = p->component == p->last ? p->first : p->component + 1;
    return c;
}

/* next_dc reads the next DC coefficient, and moves to the block's set of coefficients. */
static inline __attribute__((always_inline)) int32_t next_dc(predictor *p, const uint8_t *base,
                                                             size_t *at, int class)
{
    const int width = bfs_tiers_dc[class];
    const uint64_t head = bits(base, *at);
    const int32_t difference = (int32_t)((uint32_t)head << (32 - width)) >> (32 - width);
    int32_t *const before = &p->before[next_component(p)];
    *at += width;
    *before += difference;
    if (__builtin_expect(difference == BFS_TIERS_BEYOND, 0)) {
        *before = (int16_t)(head >> 12);
        *at += 16;
    }
    p->beyond |= *before + 0x8000;
    return *before;
}

/* set_of makes the set of a block's AC coefficients that are not 0. */
static inline __attribute__((always_inline)) uint64_t set_of(const uint8_t *base, size_t *at,
                                                             int last)
{
    const uint64_t end = UINT64_C(1) << last;
    const uint64_t set = ((bits64(base, *at) << 1 & (end - 1)) | end) & ~UINT64_C(1);
    *at += last - (last > 0);
    return set;
}

static inline int within(const predictor *p) { return (p->beyond & ~0xffff) == 0; }

int bfs_tiers_unpack_portable(int16_t *to, const uint8_t *h, const uint8_t *from[BFS_TIERS_STREAMS],
                              const bfs_tiers_mcu *mcu, int n)
{
    places s = places_of(from);
    predictor p = predictor_of(mcu);
    const uint8_t *const base = s.base;
    for (int i = 0; i < n; i++, to += 64) {
        memset(to, 0, 128);
        to[0] = (int16_t)next_dc(&p, base, &s.at[M], h[i] >> 6);
        uint64_t set = set_of(base, &s.at[M], h[i] & 63);
        const int count = __builtin_popcountll(set);
        uint64_t more = bits64(base, s.at[P]), negative = bits64(base, s.at[P] + count),
                 most = bits64(base, s.at[Q]);
        s.at[P] += 2 * count;
        for (; set; set &= set - 1, more >>= 1, negative >>= 1) {
            int v = 1, wide = 0;
            if (more & 1) {
                v = 2 + (most & 1);
                most >>= 1;
                s.at[Q]++;
            }
            if (v == 3) {
                v += base[s.at[N] / 2] >> s.at[N] % 2 * 4 & 15;
                s.at[N]++;
            }
            if (v == 18) {
                v += base[s.at[V]++];
                wide = v > INT8_MAX;
            }
            v = negative & 1 ? -v : v;
            if (wide) {
                v = (int16_t)(base[s.at[W]] | base[s.at[W] + 1] << 8);
                s.at[W] += 2;
            }
            to[__builtin_ctzll(set)] = (int16_t)v;
        }
    }
    leave(from, &s);
    return within(&p);
}

/* begin returns the positions for writing streams. Unwritten bits of a stream's last byte are 0. */
static inline places begin(uint8_t *const to[BFS_TIERS_STREAMS])
{
    for (int i = M; i <= N; i++)
        *to[i] = 0;
    return places_of((const uint8_t *const *)to);
}

/* put writes n bits, at most 64, without branches, which would be unpredictable. */
static inline __attribute__((always_inline)) void put(uint8_t *base, size_t *at, uint64_t bits,
                                                      int n)
{
    uint8_t *const to = base + *at / 8;
    const int written = *at % 8;
    bfs_store64(to, *to | bits << written);
    to[8] = (uint8_t)(bits >> 1 >> (63 - written));
    *at += (size_t)n;
}

/* put_head writes the parts of a block in H and M. */
static inline __attribute__((always_inline)) uint8_t put_head(uint8_t *base, size_t *m,
                                                              int16_t dc, int32_t *before,
                                                              uint64_t set)
{
    const int32_t d = dc - *before;
    const int class = (d < -2 || d > 1) + (d < -8 || d > 7) + (d < -64 || d > 63);
    *before = dc;
    if (__builtin_expect(d <= BFS_TIERS_BEYOND || d > 2047, 0)) {
        put(base, m, (uint64_t)BFS_TIERS_BEYOND & 0xfff, 12);
        put(base, m, (uint16_t)dc, 16);
    } else {
        put(base, m, (uint64_t)d & ((1u << bfs_tiers_dc[class]) - 1), bfs_tiers_dc[class]);
    }
    if (set == 0)
        return (uint8_t)(class << 6);
    const int last = 63 - __builtin_clzll(set);
    put(base, m, (set & ~(UINT64_C(1) << last)) >> 1, last - 1);
    return (uint8_t)(class << 6 | last);
}

/* put_large writes the parts of a coefficient in V and W. */
static inline __attribute__((always_inline)) void put_large(uint8_t *base, places *s, int16_t value)
{
    const int magnitude = value < 0 ? -value : value;
    const int wide = magnitude > INT8_MAX;
    base[s->at[V]++] = (uint8_t)(wide ? 255 : magnitude - 18);
    if (wide) {
        base[s->at[W]++] = (uint8_t)value;
        base[s->at[W]++] = (uint8_t)((uint16_t)value >> 8);
    }
}

static inline void put_nibble(uint8_t *base, size_t *n, int value)
{
    uint8_t *const to = base + *n / 2;
    *to = (uint8_t)(*n % 2 ? *to | value << 4 : value);
    ++*n;
}

int bfs_tiers_pack_portable(uint8_t *to[BFS_TIERS_STREAMS], uint8_t *h,
                            const int16_t *const *blocks, const bfs_tiers_mcu *mcu, int n,
                            const uint16_t limit[3][32])
{
    uint8_t *const base = to[M];
    places s = begin(to);
    predictor p = predictor_of(mcu);
    int beyond = 0;
    for (int i = 0; i < n; i++) {
        const int16_t *const from = blocks[i];
        const int c = next_component(&p);
        uint64_t set = 0, more = 0, negative = 0, most = 0;
        int count = 0, larger = 0;
        for (int k = 0; k < 32; k++)
            beyond |= (from[k] < 0 ? -from[k] : from[k]) > limit[c][k];
        for (int k = 1; k < 64; k++)
            set |= (uint64_t)(from[k] != 0) << k;
        h[i] = put_head(base, &s.at[M], from[0], &p.before[c], set);
        for (uint64_t left = set; left; left &= left - 1, count++) {
            const int16_t v = from[__builtin_ctzll(left)];
            const int magnitude = v < 0 ? -v : v;
            negative |= (uint64_t)(v < 0) << count;
            if (magnitude == 1)
                continue;
            more |= UINT64_C(1) << count;
            most |= (uint64_t)(magnitude > 2) << larger++;
            if (magnitude > 2)
                put_nibble(base, &s.at[N], magnitude < 18 ? magnitude - 3 : 15);
            if (magnitude >= 18)
                put_large(base, &s, v);
        }
        put(base, &s.at[P], more, count);
        put(base, &s.at[P], negative, count);
        put(base, &s.at[Q], most, larger);
    }
    leave((const uint8_t **)to, &s);
    return !beyond;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define INLINE2 static inline __attribute__((always_inline, target("avx2,bmi,bmi2,lzcnt,popcnt")))

/* The sets of a block's coefficients. */
typedef struct {
    uint64_t all, more, most, negative; /* not 0, more than 1, more than 2, less than 0 */
} sets;

/* put_sets writes the parts of a block in P and Q. */
INLINE2 void put_sets(uint8_t *base, places *to, sets s)
{
    const int count = __builtin_popcountll(s.all);
    put(base, &to->at[P], _pext_u64(s.more, s.all), count);
    put(base, &to->at[P], _pext_u64(s.negative, s.all), count);
    put(base, &to->at[Q], _pext_u64(s.most, s.more), __builtin_popcountll(s.more));
}

INLINE2 uint64_t mask_of(__m256i low, __m256i high)
{
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high)
                                                     << 32;
}

INLINE2 uint64_t at_least(const __m256i v[2], int least)
{
    const __m256i x = _mm256_set1_epi8((char)least);
    return mask_of(_mm256_cmpeq_epi8(_mm256_max_epu8(v[0], x), v[0]),
                   _mm256_cmpeq_epi8(_mm256_max_epu8(v[1], x), v[1]));
}

/* put_nibbles writes a nibble for each of the set's magnitudes. */
INLINE2 void put_nibbles(uint8_t *base, size_t *n, const __m256i magnitude[2], uint64_t set)
{
    const __m256i three = _mm256_set1_epi8(3), most = _mm256_set1_epi8(15),
                  pairs = _mm256_set1_epi16(0x1001);
    __m256i bytes[2];
    uint64_t nibbles[4];
    size_t at = *n * 4;
    for (int i = 0; i < 2; i++)
        bytes[i] = _mm256_maddubs_epi16(
            _mm256_min_epu8(_mm256_subs_epu8(magnitude[i], three), most), pairs);
    _mm256_storeu_si256(
        (__m256i *)nibbles,
        _mm256_permute4x64_epi64(_mm256_packus_epi16(bytes[0], bytes[1]), 0xd8));
    for (int i = 0; i < 4; i++, set >>= 16) {
        const uint64_t ones = _pdep_u64(set & 0xffff, UINT64_C(0x1111111111111111));
        put(base, &at, _pext_u64(nibbles[i], (ones << 4) - ones), 4 * __builtin_popcountll(ones));
    }
    *n = at / 4;
}

AVX2 int bfs_tiers_pack_avx2(uint8_t *to[BFS_TIERS_STREAMS], uint8_t *h,
                             const int16_t *const *blocks, const bfs_tiers_mcu *mcu, int n,
                             const uint16_t limit[3][32])
{
    uint8_t *const base = to[M];
    places s = begin(to);
    predictor dc = predictor_of(mcu);
    __m256i beyond = _mm256_setzero_si256();
    for (int i = 0; i < n; i++) {
        const int16_t *const from = blocks[i];
        const int c = next_component(&dc);
        __m256i v[4], narrow[2], magnitude[2];
        for (int k = 0; k < 4; k++)
            v[k] = _mm256_loadu_si256((const __m256i *)from + k);
        for (int k = 0; k < 2; k++) {
            beyond = _mm256_or_si256(
                beyond, _mm256_subs_epu16(_mm256_abs_epi16(v[k]),
                                          _mm256_loadu_si256((const __m256i *)limit[c] + k)));
            narrow[k] = _mm256_permute4x64_epi64(_mm256_packs_epi16(v[2 * k], v[2 * k + 1]), 0xd8);
            magnitude[k] = _mm256_abs_epi8(narrow[k]); /* saturated at 128 */
        }
        const uint64_t ac = ~UINT64_C(1);
        const uint64_t set = at_least(magnitude, 1) & ac, more = at_least(magnitude, 2) & ac,
                       most = at_least(magnitude, 3) & ac;
        h[i] = put_head(base, &s.at[M], from[0], &dc.before[c], set);
        put_sets(base, &s, (sets){set, more, most, mask_of(narrow[0], narrow[1])});
        put_nibbles(base, &s.at[N], magnitude, most);
        for (uint64_t left = at_least(magnitude, 18) & ac; left; left &= left - 1)
            put_large(base, &s, from[__builtin_ctzll(left)]);
    }
    leave((const uint8_t **)to, &s);
    return _mm256_testz_si256(beyond, beyond);
}

/* next_sets reads the parts of a block in P and Q, and skips its part of N. */
INLINE2 sets next_sets(const uint8_t *base, size_t *p, size_t *q, uint64_t all)
{
    sets s = {.all = all};
    const int count = __builtin_popcountll(all);
    if (__builtin_expect(count <= 57, 1)) {
        s.more = _pdep_u64(bits(base, *p), all);
        s.negative = _pdep_u64(bits(base, *p + count), all);
        s.most = _pdep_u64(bits(base, *q), s.more);
    } else {
        s.more = _pdep_u64(bits64(base, *p), all);
        s.negative = _pdep_u64(bits64(base, *p + count), all);
        s.most = _pdep_u64(bits64(base, *q), s.more);
    }
    *p += 2 * count;
    *q += __builtin_popcountll(s.more);
    return s;
}

/* Number of blocks whose sets are found before their values, so that more blocks are in flight. */
enum { TOGETHER = 24 };

typedef struct {
    sets of;
    int16_t dc;
} found;

/* next_blocks finds n blocks' sets. */
INLINE2 void next_blocks(found *to, const uint8_t *h, int n, predictor *dc, places *s)
{
    const uint8_t *const base = s->base;
    size_t m = s->at[M], p = s->at[P], q = s->at[Q];
    for (int i = 0; i < n; i++) {
        to[i].dc = (int16_t)next_dc(dc, base, &m, h[i] >> 6);
        to[i].of = next_sets(base, &p, &q, set_of(base, &m, h[i] & 63));
    }
    s->at[M] = m;
    s->at[P] = p;
    s->at[Q] = q;
}

/* spread16 gives a nibble to each of 16 coefficients. */
INLINE2 uint64_t spread16(const uint8_t *base, size_t *n, uint16_t set)
{
    const uint64_t ones = _pdep_u64(set, UINT64_C(0x1111111111111111));
    const uint64_t v = _pdep_u64(bits64(base, *n * 4), (ones << 4) - ones);
    *n += __builtin_popcount(set);
    return v;
}

INLINE2 __m256i bytes_of(uint64_t a, uint64_t b)
{
    const __m128i v = _mm_set_epi64x((long long)b, (long long)a), low = _mm_set1_epi8(15);
    const __m128i even = _mm_and_si128(v, low), odd = _mm_and_si128(_mm_srli_epi16(v, 4), low);
    return _mm256_set_m128i(_mm_unpackhi_epi8(even, odd), _mm_unpacklo_epi8(even, odd));
}

/* spread turns nibbles into bytes for a set of coefficients. */
INLINE2 void spread(__m256i to[2], const uint8_t *base, size_t *n, uint64_t set)
{
    const uint64_t a = spread16(base, n, (uint16_t)set),
                   b = spread16(base, n, (uint16_t)(set >> 16));
    to[0] = bytes_of(a, b);
    to[1] = _mm256_setzero_si256();
    if (set >> 32) {
        const uint64_t c = spread16(base, n, (uint16_t)(set >> 32)),
                       d = spread16(base, n, (uint16_t)(set >> 48));
        to[1] = bytes_of(c, d);
    }
}

/* choose makes a vector with -1 for each coefficient in a set. */
INLINE2 __m256i choose(uint32_t set)
{
    const __m256i byte =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    return _mm256_cmpeq_epi8(
        _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)set), byte), bit), bit);
}

/* large16 replaces coefficients by their values in V and W. */
INLINE2 void large16(int16_t *to, const uint8_t *base, size_t *v, size_t *w, uint64_t set,
                     uint64_t negative)
{
    for (; set; set &= set - 1) {
        const int k = __builtin_ctzll(set), x = base[(*v)++] + 18;
        to[k] = (int16_t)(negative >> k & 1 ? -x : x);
        if (__builtin_expect(x > INT8_MAX, 0)) {
            memcpy(to + k, base + *w, 2);
            *w += 2;
        }
    }
}

AVX2 int bfs_tiers_unpack_avx2(int16_t *to, const uint8_t *h,
                               const uint8_t *from[BFS_TIERS_STREAMS], const bfs_tiers_mcu *mcu,
                               int n)
{
    places s = places_of(from);
    predictor dc = predictor_of(mcu);
    found blocks[TOGETHER];
    for (int left = n; left > 0; left -= TOGETHER, h += TOGETHER) {
        const int now = left < TOGETHER ? left : TOGETHER;
        next_blocks(blocks, h, now, &dc, &s);
        for (int i = 0; i < now; i++, to += 64) {
            const sets b = blocks[i].of;
            __m256i v[2];
            uint64_t large = 0;
            spread(v, s.base, &s.at[N], b.most);
            for (int k = 0; k < 2; k++) {
                const uint32_t all = (uint32_t)(b.all >> 32 * k),
                               more = (uint32_t)(b.more >> 32 * k),
                               most = (uint32_t)(b.most >> 32 * k);
                const __m256i minus = choose((uint32_t)(b.negative >> 32 * k));
                const __m256i is_large = _mm256_cmpeq_epi8(v[k], _mm256_set1_epi8(15));
                large |= (uint64_t)(uint32_t)_mm256_movemask_epi8(is_large) << 32 * k;
                v[k] = _mm256_sub_epi8(
                    v[k],
                    _mm256_add_epi8(choose(all), _mm256_add_epi8(choose(more), choose(most))));
                v[k] = _mm256_sub_epi8(_mm256_xor_si256(v[k], minus), minus);
                _mm256_store_si256((__m256i *)to + 2 * k,
                                   _mm256_cvtepi8_epi16(_mm256_castsi256_si128(v[k])));
                _mm256_store_si256((__m256i *)to + 2 * k + 1,
                                   _mm256_cvtepi8_epi16(_mm256_extracti128_si256(v[k], 1)));
            }
            to[0] = blocks[i].dc;
            large16(to, s.base, &s.at[V], &s.at[W], large, b.negative);
        }
    }
    leave(from, &s);
    return within(&dc);
}

#define LEVEL "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt"

/* nibbles64 turns at least 63 nibbles into bytes. */
static inline __attribute__((always_inline, target(LEVEL))) __m512i nibbles64(const uint8_t *base,
                                                                              size_t n)
{
    /* Each 8 bytes of the result come from 5 bytes; the fifth is needed if the first nibble is an
     * odd one. */
    const __m512i byte = _mm512_set_epi64(
        0x232221201f1e1d1c, 0x1f1e1d1c1b1a1918, 0x1b1a191817161514, 0x1716151413121110,
        0x131211100f0e0d0c, 0x0f0e0d0c0b0a0908, 0x0b0a090807060504, 0x0706050403020100);
    const __m512i shift = _mm512_set1_epi64(
        (long long)(UINT64_C(0x1c1814100c080400) + n % 2 * UINT64_C(0x0404040404040404)));
    const __m512i v = _mm512_permutexvar_epi8(byte, _mm512_loadu_si512(base + n / 2));
    return _mm512_and_si512(_mm512_multishift_epi64_epi8(shift, v), _mm512_set1_epi8(15));
}

__attribute__((target(LEVEL))) int bfs_tiers_unpack_avx512(int16_t *to, const uint8_t *h,
                                                           const uint8_t *from[BFS_TIERS_STREAMS],
                                                           const bfs_tiers_mcu *mcu, int n)
{
    places s = places_of(from);
    predictor dc = predictor_of(mcu);
    found blocks[TOGETHER];
    const __m512i one = _mm512_set1_epi8(1);
    for (int left = n; left > 0; left -= TOGETHER, h += TOGETHER) {
        const int now = left < TOGETHER ? left : TOGETHER;
        next_blocks(blocks, h, now, &dc, &s);
        for (int i = 0; i < now; i++, to += 64) {
            const sets b = blocks[i].of;
            const __m512i nibbles = _mm512_maskz_expand_epi8(b.most, nibbles64(s.base, s.at[N]));
            s.at[N] += __builtin_popcountll(b.most);
            const uint64_t large = _mm512_cmpeq_epi8_mask(nibbles, _mm512_set1_epi8(15));
            const __m512i bytes =
                _mm512_maskz_expand_epi8(large, _mm512_loadu_si512(s.base + s.at[V]));
            s.at[V] += __builtin_popcountll(large);
            const uint64_t wide = _mm512_cmpgt_epu8_mask(bytes, _mm512_set1_epi8(INT8_MAX - 18));
            __m512i v = _mm512_maskz_mov_epi8(b.all, one);
            v = _mm512_mask_add_epi8(v, b.more, v, one);
            v = _mm512_mask_add_epi8(v, b.most, nibbles, _mm512_set1_epi8(3));
            v = _mm512_add_epi8(v, bytes);
            v = _mm512_mask_sub_epi8(v, b.negative, _mm512_setzero_si512(), v);
            _mm512_store_si512(to, _mm512_cvtepi8_epi16(_mm512_castsi512_si256(v)));
            _mm512_store_si512(to + 32, _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(v, 1)));
            to[0] = blocks[i].dc;
            for (uint64_t rest = wide; __builtin_expect(rest != 0, 0);
                 rest &= rest - 1, s.at[W] += 2)
                memcpy(to + __builtin_ctzll(rest), s.base + s.at[W], 2);
        }
    }
    leave(from, &s);
    return within(&dc);
}
/* put_nibbles64 writes at most 63 bytes below 16 as nibbles; the others are 0. */
static inline __attribute__((always_inline, target(LEVEL))) void put_nibbles64(uint8_t *base,
                                                                               size_t *n, __m512i v,
                                                                               int count)
{
    const __m512i place = _mm512_set_epi64(
        0x3f3e3d3c3b3a3938, 0x3736353433323130, 0x2f2e2d2c2b2a2928, 0x2726252423222120,
        0x1f1e1d1c1b1a1918, 0x1716151413121110, 0x0f0e0d0c0b0a0908, 0x0706050403020100);
    uint8_t *const to = base + *n / 2;
    const int odd = *n % 2;
    v = _mm512_permutexvar_epi8(_mm512_sub_epi8(place, _mm512_set1_epi8((char)odd)), v);
    const __m256i pairs = _mm512_cvtepi16_epi8(_mm512_maddubs_epi16(v, _mm512_set1_epi16(0x1001)));
    const __m128i half = _mm_cvtsi32_si128(*to & -odd);
    _mm256_storeu_si256((__m256i *)to, _mm256_or_si256(pairs, _mm256_zextsi128_si256(half)));
    *n += (size_t)count;
}

__attribute__((target(LEVEL))) int bfs_tiers_pack_avx512(uint8_t *to[BFS_TIERS_STREAMS], uint8_t *h,
                                                         const int16_t *const *blocks,
                                                         const bfs_tiers_mcu *mcu, int n,
                                                         const uint16_t limit[3][32])
{
    uint8_t *const base = to[M];
    places s = begin(to);
    predictor dc = predictor_of(mcu);
    const uint64_t ac = ~UINT64_C(1);
    const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    __m512i beyond = _mm512_setzero_si512();
    for (int i = 0; i < n; i++) {
        const int16_t *const from = blocks[i];
        const int c = next_component(&dc);
        const __m512i low = _mm512_loadu_si512(from), high = _mm512_loadu_si512(from + 32),
                      limits = _mm512_loadu_si512(limit[c]), least = _mm512_set1_epi16(128);
        beyond = _mm512_or_si512(beyond, _mm512_subs_epu16(_mm512_abs_epi16(low), limits));
        const uint64_t of_w = (_mm512_cmpge_epu16_mask(_mm512_abs_epi16(low), least) |
                               (uint64_t)_mm512_cmpge_epu16_mask(_mm512_abs_epi16(high), least)
                                   << 32) &
                              ac;
        const __m512i narrow = _mm512_permutexvar_epi64(order, _mm512_packs_epi16(low, high)),
                      magnitude = _mm512_abs_epi8(narrow); /* 127 or 128 if W has it */
        const sets found = {
            _mm512_test_epi8_mask(magnitude, magnitude) & ac,
            _mm512_cmpge_epu8_mask(magnitude, _mm512_set1_epi8(2)) & ac,
            _mm512_cmpge_epu8_mask(magnitude, _mm512_set1_epi8(3)) & ac,
            _mm512_movepi8_mask(narrow),
        };
        h[i] = put_head(base, &s.at[M], from[0], &dc.before[c], found.all);
        put_sets(base, &s, found);
        const __m512i nibble = _mm512_min_epu8(_mm512_sub_epi8(magnitude, _mm512_set1_epi8(3)),
                                               _mm512_set1_epi8(15));
        put_nibbles64(base, &s.at[N], _mm512_maskz_compress_epi8(found.most, nibble),
                      __builtin_popcountll(found.most));
        const uint64_t of_v = _mm512_cmpge_epu8_mask(magnitude, _mm512_set1_epi8(18)) & ac;
        const __m512i byte = _mm512_mask_set1_epi8(_mm512_sub_epi8(magnitude, _mm512_set1_epi8(18)),
                                                   of_w, (char)255);
        _mm512_storeu_si512(base + s.at[V], _mm512_maskz_compress_epi8(of_v, byte));
        s.at[V] += (size_t)__builtin_popcountll(of_v);
        for (uint64_t rest = of_w; __builtin_expect(rest != 0, 0); rest &= rest - 1, s.at[W] += 2)
            memcpy(base + s.at[W], from + __builtin_ctzll(rest), 2);
    }
    leave((const uint8_t **)to, &s);
    return _mm512_test_epi16_mask(beyond, beyond) == 0;
}
#endif

/* bfs_tiers_by returns the kernel for this processor. Where pdep is slow, AVX2 is no faster. */
bfs_tiers_kernel bfs_tiers_by(int kernel)
{
#if defined(__x86_64__)
    const int slow = __builtin_cpu_is("znver1") || __builtin_cpu_is("znver2");
    if (kernel == BFS_AVX512 && __builtin_cpu_supports("avx512vbmi2"))
        return (bfs_tiers_kernel){bfs_tiers_unpack_avx512, bfs_tiers_pack_avx512};
    if (kernel >= BFS_AVX2 && !slow)
        return (bfs_tiers_kernel){bfs_tiers_unpack_avx2, bfs_tiers_pack_avx2};
#endif
    return (bfs_tiers_kernel){bfs_tiers_unpack_portable, bfs_tiers_pack_portable};
}
