/* The body of the entropy decoder, for baseline_entropy.c, which defines NAME and TARGET.
 *
 * It is a state machine with almost no branches that depend on the data; of those in a usual
 * Huffman decoder, processors mispredict several per block. The position within a block is that
 * of the pointer, because blocks are aligned to their size. The end of a block rounds it up, and
 * a conditional move then takes the next block's DC table.
 *
 * s->at has room for all blocks up to end, and s->from can be read for BFS_WORST bytes per
 * block and 8 more. */

/* REFILL tops up to at least 56 bits, which are enough for two steps of at most 26. */
#define REFILL                              \
    do {                                    \
        count &= 63;                        \
        bits |= load(from) >> count;        \
        from += (count ^ 63) >> 3;          \
        count |= 56;                        \
    } while (0)

/* STEP decodes one or two symbols. The last value's bits are extended to a coefficient by
 * shifting them down below their inverted first bit, which makes it right for positive values
 * and one too little for negative ones; no bits make 0. */
#define STEP                                                                              \
    do {                                                                                  \
        const bfs_step *e = table->step + (bits >> (64 - BFS_LOOKUP));                    \
        uint8_t *next = at + e->advance;                                                  \
        if (__builtin_expect(((uintptr_t)next ^ (uintptr_t)at) > 127, 0))                 \
            goto slow;                                                                    \
        const int64_t extended = ((int64_t)(bits << (e->before & 63)) >> 1) ^ sign;       \
        put(at + e->first, e->value);                                                     \
        put(at + e->last, (int16_t)((extended >> (e->shift & 63)) + (int64_t)((uint64_t)extended >> 63))); \
        bits <<= e->length & 63;                                                          \
        count -= e->length;                                                               \
        at = (uint8_t *)((uintptr_t)next | e->end) + 1;                                   \
        NEXT_TABLE;                                                                       \
    } while (0)

TARGET int NAME(bfs_stream *s, const bfs_phase *end)
{
    int64_t sign = INT64_MIN;
    OPAQUE(sign);
    const uint8_t *from = s->from;
    uint64_t bits = s->bits, count = s->count;
    uint8_t *at = s->at;
    const bfs_phase *phase = s->phase;
    const bfs_table *table = s->table;
again:
    /* A block takes at least two steps, so two that start before the last block end at end at
     * the latest. */
    while (phase < end - 1) {
        REFILL;
        STEP;
        STEP;
    }
    while (phase < end) {
        REFILL;
        STEP;
    }
    *s = (bfs_stream){from, bits, count, at, phase, table};
    return 1;
slow:
    *s = (bfs_stream){from, bits, count, at, phase, table};
    if (!one_symbol(s))
        return 0;
    from = s->from, bits = s->bits, count = s->count, at = s->at, phase = s->phase, table = s->table;
    goto again;
}

#undef NAME
#undef TARGET
