/* The body of progressive_bands.c, which defines PASSES, NAME, TARGET, NONZERO, PICK and
 * SCATTER.
 *
 * Both passes have few branches that depend on the data. The first one is the state machine of
 * bfs_entropy.h with one symbol per step and one band. Its positions are moved up so that the end
 * of the band is where a block's end is.
 *
 * Refining works on sets of coefficients, one bit each: coefficient k is bit 64-k, and bit 0 is the
 * end of the block. All correction bits before a new coefficient are read at once, and the
 * coefficients themselves are changed once the symbols of all blocks are decoded. */

TARGET static int NAME(first)(bfs_stream *stream, bfs_band *b, int16_t *blocks, int n)
{
    const int skipped = b->run < n ? b->run : n, low = b->low;
    const ptrdiff_t past = 2 * (63 - b->last), start = past + 2 * b->first;
    const bfs_symbol *const symbol = b->symbols.symbol;
    const int64_t sign = INT64_MIN;
    bfs_stream s = *stream;
    uint8_t *const end = (uint8_t *)blocks + 128 * (ptrdiff_t)n;
    b->run -= skipped;
    uint8_t *at = (uint8_t *)blocks + 128 * (ptrdiff_t)skipped + start;
    while (at < end) {
        bfs_refill(&s);
        const bfs_symbol *const e = symbol + (s.bits >> (64 - BFS_SYMBOL_BITS));
        uint8_t *next = at + 2 * e->run - 1;
        if (__builtin_expect(((uintptr_t)next ^ (uintptr_t)at) > 127, 0)) {
            bfs_stream slow = s; /* s itself stays in registers */
            at = one_symbol(&slow, b, at);
            s = slow;
            if (!at)
                return 0;
            const ptrdiff_t left = (end - at + 127) / 128, skip = b->run < left ? b->run : left;
            b->run -= (int)skip;
            at += 128 * skip;
            continue;
        }
        const int64_t extended = ((int64_t)(s.bits << e->code) >> 1) ^ sign;
        const int value = (int)((extended >> (63 - e->size)) + (int64_t)((uint64_t)extended >> 63));
        put(next - 1 - past, (int)((unsigned)value << low));
        bfs_consume(&s, e->length);
        next = (uint8_t *)((uintptr_t)next | e->end) + 1;
        at = (uintptr_t)next & 127 ? next : next + start;
    }
    *stream = s;
    return 1;
}

/* change moves a set of coefficients away from zero; where they are zero, the set negative says in
 * which direction. */
TARGET static inline void NAME(change)(int16_t *block, uint64_t set, uint64_t negative, int by)
{
    const lanes place = PLACES, zero = {0};
    lanes *v = (lanes *)block;
    for (int i = 48; i >= 0; i -= 16, v++) {
        const lanes in = (place & (int16_t)(set >> 1 >> i)) != zero;
        const lanes minus = (*v < zero) | ((place & (int16_t)(negative >> 1 >> i)) != zero);
        *v += ((minus ^ (int16_t)by) - minus) & in;
    }
}

/* corrections reads one bit for each of a set of at most 32 coefficients. */
TARGET static inline __attribute__((always_inline)) uint64_t NAME(take)(bfs_stream *s, uint64_t set)
{
    const int n = __builtin_popcountll(set);
    const uint64_t v = s->bits >> 1 >> (63 - n);
    bfs_consume(s, n);
    return SCATTER(v, set);
}

TARGET static inline __attribute__((always_inline)) uint64_t NAME(corrections)(bfs_stream *s, uint64_t set)
{
    const uint64_t half = UINT32_MAX;
    uint64_t corrected = 0;
    if (__builtin_expect(__builtin_popcountll(set) > 32, 0)) {
        corrected = NAME(take)(s, set & ~half);
        set &= half;
        bfs_refill(s);
    }
    return corrected | NAME(take)(s, set);
}

TARGET static int NAME(refine)(bfs_stream *stream, bfs_band *b, int16_t *blocks, int n)
{
    const uint64_t band = ~UINT64_C(0) >> (b->first - 1) & ~UINT64_C(0) << (64 - b->last);
    const bfs_symbol *const symbol = b->symbols.symbol;
    bfs_stream s = *stream;
    uint64_t set[BFS_SLICE], negative[BFS_SLICE];
    int run = b->run;
    for (int i = 0; i < n; i++)
        set[i] = NONZERO(blocks + 64 * i);
    for (int i = 0; i < n; i++) {
        const uint64_t known = set[i] & band;
        uint64_t left = band, zeros = (band & ~known) | 1, changed = 0, minus = 0;
        while (run == 0 && left) {
            bfs_refill(&s);
            bfs_symbol e = symbol[s.bits >> (64 - BFS_SYMBOL_BITS)];
            int index = e.end ? 0 : __builtin_popcountll(zeros) - e.run;
            if (__builtin_expect(index <= 0 && !e.end, 0)) {
                const bfs_code c = bfs_codes_find(&b->symbols.codes, s.bits);
                const int size = c.symbol & 15, skip = c.symbol >> 4;
                if (c.length == 0 || size > 1)
                    return 0;
                if (size == 0 && skip < 15) {
                    bfs_consume(&s, c.length);
                    run = run_of(&s, skip);
                    break;
                }
                e = (bfs_symbol){.length = (uint8_t)(c.length + size), .size = (uint8_t)size};
                index = __builtin_popcountll(zeros) - skip - 1;
                if (index <= 0)
                    return 0;
            }
            const uint64_t at = PICK(zeros, index), added = at & -(uint64_t)e.size;
            bfs_consume(&s, e.length - 1);
            minus |= added & ~(uint64_t)((int64_t)s.bits >> 63);
            bfs_consume(&s, 1);
            changed |= added | NAME(corrections)(&s, known & left & -at);
            left &= at - 1;
            zeros &= at - 1;
        }
        if (run > 0 && left) {
            bfs_refill(&s);
            changed |= NAME(corrections)(&s, known & left);
            run--;
        }
        set[i] = changed;
        negative[i] = minus;
    }
    for (int i = 0; i < n; i++)
        if (set[i])
            NAME(change)(blocks + 64 * i, set[i], negative[i], 1 << b->low);
    b->run = run;
    *stream = s;
    return 1;
}

const bfs_passes PASSES = {NAME(first), NAME(refine)};

#undef PASSES
#undef NAME
#undef TARGET
#undef NONZERO
#undef PICK
#undef SCATTER
