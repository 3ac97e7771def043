/* baseline_portable.c in vector instructions, for vectors of several lanes of 16 bytes; for
 * baseline_avx2.c and baseline_avx512.c, which define
 *
 *   X(name)   the intrinsic of that width, VECTOR its type, ZERO a vector of zeros
 *   LANES     lanes in a vector
 *   WIDEN(p)  the bytes at p as 16-bit values
 *   ROW(p)    the eight 16-bit values at p in each lane
 *   load      one block to each lane, and its rows to the eight vectors
 *   store     two rows of each block
 *   put       pixels from skip to skip + n of those in three vectors of even and odd bytes
 *   KERNEL    the name of the result
 */

enum { WIDTH = 16 * LANES };

#define PAIR(a, b) X(set1_epi32)((int)((uint32_t)(uint16_t)(int16_t)(b) << 16 | (uint16_t)(int16_t)(a)))

/* transform makes all columns of the blocks. */
INLINE void transform(VECTOR r[8], const int shift)
{
    enum {
        C0298 = 2446, C0390 = 3196, C0541 = 4433, C0765 = 6270, C0899 = 7373, C1175 = 9633,
        C1501 = 12299, C1847 = 15137, C1961 = 16069, C2053 = 16819, C2562 = 20995, C3072 = 25172
    };
    const VECTOR zero = ZERO, round = X(set1_epi32)(1 << (shift - 1));
    VECTOR even[4][2], odd[4][2];
    /* Results of 32 bits take two vectors: of the low and the high values of each lane. */
#define HALVES(v, a, b) const VECTOR v[2] = {X(unpacklo_epi16)(a, b), X(unpackhi_epi16)(a, b)}
    HALVES(x26, r[2], r[6]);
    HALVES(sum04, zero, X(add_epi16)(r[0], r[4]));
    HALVES(difference04, zero, X(sub_epi16)(r[0], r[4]));
    HALVES(z34, X(add_epi16)(r[7], r[3]), X(add_epi16)(r[5], r[1]));
    HALVES(x71, r[7], r[1]);
    HALVES(x53, r[5], r[3]);
#undef HALVES
    for (int h = 0; h < 2; h++) {
        const VECTOR e3 = X(madd_epi16)(x26[h], PAIR(C0541 + C0765, C0541)), e2 = X(madd_epi16)(x26[h], PAIR(C0541, C0541 - C1847));
        const VECTOR e0 = X(add_epi32)(X(srai_epi32)(sum04[h], 3), round), e1 = X(add_epi32)(X(srai_epi32)(difference04[h], 3), round);
        even[0][h] = X(add_epi32)(e0, e3);
        even[1][h] = X(add_epi32)(e1, e2);
        even[2][h] = X(sub_epi32)(e1, e2);
        even[3][h] = X(sub_epi32)(e0, e3);
        const VECTOR s3 = X(madd_epi16)(z34[h], PAIR(C1175 - C1961, C1175)), s4 = X(madd_epi16)(z34[h], PAIR(C1175, C1175 - C0390));
        odd[0][h] = X(add_epi32)(X(madd_epi16)(x71[h], PAIR(-C0899, C1501 - C0899)), s4);
        odd[1][h] = X(add_epi32)(X(madd_epi16)(x53[h], PAIR(-C2562, C3072 - C2562)), s3);
        odd[2][h] = X(add_epi32)(X(madd_epi16)(x53[h], PAIR(C2053 - C2562, -C2562)), s4);
        odd[3][h] = X(add_epi32)(X(madd_epi16)(x71[h], PAIR(C0298 - C0899, -C0899)), s3);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = X(packs_epi32)(X(srai_epi32)(X(add_epi32)(even[i][0], odd[i][0]), shift),
                              X(srai_epi32)(X(add_epi32)(even[i][1], odd[i][1]), shift));
        r[7 - i] = X(packs_epi32)(X(srai_epi32)(X(sub_epi32)(even[i][0], odd[i][0]), shift),
                                  X(srai_epi32)(X(sub_epi32)(even[i][1], odd[i][1]), shift));
    }
}

/* transpose swaps rows and columns of each block. */
INLINE void transpose(VECTOR r[8])
{
    VECTOR a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = X(unpacklo_epi16)(r[i], r[i + 1]);
        a[i + 1] = X(unpackhi_epi16)(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            b[i + 2 * k] = X(unpacklo_epi32)(a[i + k], a[i + k + 2]);
            b[i + 2 * k + 1] = X(unpackhi_epi32)(a[i + k], a[i + k + 2]);
        }
    for (int i = 0; i < 4; i++) {
        r[2 * i] = X(unpacklo_epi64)(b[i], b[i + 4]);
        r[2 * i + 1] = X(unpackhi_epi64)(b[i], b[i + 4]);
    }
}

/* take loads and dequantizes the blocks from block i on; the last of the n blocks also fills the
 * lanes that are left. It returns the magnitudes of their first rows. */
INLINE VECTOR take(VECTOR r[8], const int16_t *block, int i, int n, int group, ptrdiff_t step, const bfs_quant *q)
{
    const int16_t *in[LANES];
    for (int k = 0; k < LANES; k++) {
        const int at = i + k < n ? i + k : n - 1;
        in[k] = group == 1 ? block + at * step : block + at / group * step + at % group * 64;
    }
    load(r, in);
    const VECTOR first = X(abs_epi16)(r[0]);
    for (int k = 0; k < 8; k++)
        r[k] = X(mullo_epi16)(r[k], ROW(q->by + 8 * k));
    return first;
}

/* certain reports whether all magnitudes are within their limits. */
INLINE int certain(VECTOR largest, const bfs_quant *q)
{
    uint16_t beyond[WIDTH / 2];
    X(storeu_si)(beyond, X(subs_epu16)(largest, ROW(q->limit)));
    int sum = 0;
    for (int k = 0; k < WIDTH / 2; k++)
        sum |= beyond[k];
    return sum == 0;
}

INLINE VECTOR samples(VECTOR a, VECTOR b) { return X(add_epi8)(X(packs_epi16)(a, b), X(set1_epi8)((char)128)); }

TARGET static int idct8(const int16_t *block, int n, int group, ptrdiff_t step, const bfs_quant *q, uint8_t *to, ptrdiff_t stride)
{
    VECTOR largest = ZERO;
    for (int i = 0; i < n; i += LANES, to += 8 * LANES) {
        VECTOR r[8];
        largest = X(max_epu16)(largest, take(r, block, i, n, group, step, q));
        transform(r, 11);
        transpose(r);
        transform(r, 18);
        transpose(r);
        for (int k = 0; k < 8; k += 2)
            store(to + k * stride, stride, samples(r[k], r[k + 1]));
    }
    return certain(largest, q);
}

TARGET static void sum(uint16_t *to, const uint8_t *near, const uint8_t *far, int n)
{
    for (int i = 0; i < n; i += WIDTH / 2) {
        const VECTOR a = WIDEN(near + i), b = WIDEN(far + i);
        X(storeu_si)(to + i, X(add_epi16)(X(add_epi16)(a, b), X(add_epi16)(a, a)));
    }
}

typedef struct {
    VECTOR r, g, b;
} pixels;

/* convert makes pixels from 16-bit values. Only a factor's fraction is multiplied, since the whole
 * part is a sum: the factor of Cr is 1 + 26345/65536 for red and 18734/65536 - 1 for green, the
 * factor of Cb is 2 - 7471/32768 for blue. */
INLINE pixels convert(VECTOR y, VECTOR cb, VECTOR cr)
{
    const VECTOR centre = X(set1_epi16)(128), half = X(set1_epi32)(32768), green = PAIR(-22554, 18734);
    cb = X(sub_epi16)(cb, centre);
    cr = X(sub_epi16)(cr, centre);
    const VECTOR red = X(srai_epi16)(X(add_epi16)(X(mulhi_epi16)(X(add_epi16)(cr, cr), X(set1_epi16)(26345)), X(set1_epi16)(1)), 1);
    const VECTOR low = X(srai_epi32)(X(add_epi32)(X(madd_epi16)(X(unpacklo_epi16)(cb, cr), green), half), 16);
    const VECTOR high = X(srai_epi32)(X(add_epi32)(X(madd_epi16)(X(unpackhi_epi16)(cb, cr), green), half), 16);
    return (pixels){
        .r = X(add_epi16)(X(add_epi16)(y, cr), red),
        .g = X(add_epi16)(X(sub_epi16)(y, cr), X(packs_epi32)(low, high)),
        .b = X(add_epi16)(X(add_epi16)(y, X(add_epi16)(cb, cb)), X(mulhrs_epi16)(cb, X(set1_epi16)(-7471))),
    };
}

/* deliver writes those of the pixels from skip to skip + n that are among the WIDTH pixels from x
 * on. */
INLINE void deliver(uint8_t *to, pixels even, pixels odd, int x, int skip, int n)
{
    const int from = skip > x ? skip - x : 0, left = skip + n - x - from, most = WIDTH - from;
    put(to + 3 * (x + from - skip), X(packus_epi16)(even.r, odd.r), X(packus_epi16)(even.g, odd.g), X(packus_epi16)(even.b, odd.b),
        from, left < most ? left : most);
}

INLINE VECTOR even_bytes(VECTOR v) { return X(and_si)(v, X(set1_epi16)(255)); }
INLINE VECTOR odd_bytes(VECTOR v) { return X(srli_epi16)(v, 8); }

/* beside combines three times each sum with the one next to it. */
INLINE VECTOR beside(VECTOR three, const uint16_t *next, int round)
{
    return X(srli_epi16)(X(add_epi16)(X(add_epi16)(three, X(loadu_si)(next)), X(set1_epi16)((short)round)), 4);
}

TARGET static void wide(uint8_t *to, const uint8_t *y, const uint16_t *cb, const uint16_t *cr, int skip, int n, int even, int odd)
{
    for (int x = 0; x < skip + n; x += WIDTH) {
        const uint16_t *b = cb + x / 2, *r = cr + x / 2;
        const VECTOR luma = X(loadu_si)(y + x), blue = X(loadu_si)(b), red = X(loadu_si)(r);
        const VECTOR blue3 = X(add_epi16)(blue, X(add_epi16)(blue, blue)), red3 = X(add_epi16)(red, X(add_epi16)(red, red));
        deliver(to, convert(even_bytes(luma), beside(blue3, b - 1, even), beside(red3, r - 1, even)),
                convert(odd_bytes(luma), beside(blue3, b + 1, odd), beside(red3, r + 1, odd)), x, skip, n);
    }
}

TARGET static void full(uint8_t *to, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n)
{
    for (int x = 0; x < n; x += WIDTH) {
        const VECTOR luma = X(loadu_si)(y + x), blue = X(loadu_si)(cb + x), red = X(loadu_si)(cr + x);
        deliver(to, convert(even_bytes(luma), even_bytes(blue), even_bytes(red)),
                convert(odd_bytes(luma), odd_bytes(blue), odd_bytes(red)), x, 0, n);
    }
}

const bfs_kernel KERNEL = {{bfs_idct_dc, bfs_idct2_avx2, bfs_idct4_avx2, idct8}, sum, wide, full};
