/* The body of the entropy decoder, for baseline_entropy.c, which defines ONE, TWO and
 * TARGET.
 *
 * It is a state machine with almost no branches that depend on the data: in a usual Huffman
 * decoder, processors mispredict several of them per block. Blocks are aligned to their size, so
 * the lowest bits of the pointer are the position within a block. At the end of a block the pointer
 * is rounded up, and a conditional move selects the next block's DC table.
 *
 * s->at has room for all blocks up to end, and s->from can be read for BFS_WORST bytes per
 * block and 8 more.
 *
 * Each step waits for the one before, and most of the processor is idle meanwhile. So two streams
 * can be decoded at once: one advances while the other waits. */

/* A stream's state in registers. */
#define STATE(n)                                                                          \
    const uint8_t *from##n;                                                               \
    uint64_t bits##n, count##n;                                                           \
    uint8_t *at##n;                                                                       \
    const bfs_phase *phase##n;                                                            \
    const bfs_table *table##n

#define LOAD(n, s)                                                                        \
    (from##n = (s)->from, bits##n = (s)->bits, count##n = (s)->count, at##n = (s)->at,    \
     phase##n = (s)->phase, table##n = (s)->table)

#define SAVE(n, s)                                                                        \
    ((s)->from = from##n, (s)->bits = bits##n, (s)->count = count##n, (s)->at = at##n,    \
     (s)->phase = phase##n, (s)->table = table##n)

/* REFILL tops up to 64 bits, but counts only 56 or more of them. */
#define REFILL(n)                                   \
    do {                                            \
        count##n &= 63;                             \
        bits##n |= bfs_load(from##n) >> count##n;   \
        from##n += (count##n ^ 63) >> 3;            \
        count##n |= 56;                             \
    } while (0)

/* STEP decodes one or two symbols. The next step waits for nothing but the length and the end in
 * this step's entry, because a refill adds bits behind those that are looked up. So 64 bits must
 * hold two steps, each with a code that is looked up and at most 15 bits of a value, and one more
 * look-up. */
_Static_assert(2 * (BFS_LOOKUP + 15) + BFS_LOOKUP <= 64, "a look-up can need bits that were not read");

#define STEP(n, refill)                                                                   \
    do {                                                                                  \
        const bfs_step *e = table##n->step + (bits##n >> (64 - BFS_LOOKUP));              \
        uint8_t *next = at##n + e->advance;                                               \
        if (__builtin_expect(((uintptr_t)next ^ (uintptr_t)at##n) > 127, 0))              \
            goto slow##n;                                                                 \
        refill;                                                                           \
        put(at##n + e->first, e->value);                                                  \
        put(at##n + e->last, last_value(bits##n, e, sign));                               \
        bits##n <<= e->length & 63;                                                       \
        count##n -= e->length;                                                            \
        at##n = (uint8_t *)(((uintptr_t)next + e->end) & ~(uintptr_t)e->end);             \
        NEXT_TABLE(table##n, phase##n, e->end);                                           \
    } while (0)

TARGET int ONE(bfs_stream *s)
{
    int64_t sign = INT64_MIN;
    OPAQUE(sign);
    const bfs_phase *const end = s->end;
    STATE(0);
again:
    LOAD(0, s);
    REFILL(0);
    /* A block takes at least two steps, so two that start before the last block do not go beyond
     * end. */
    while (phase0 < end - 1) {
        STEP(0, );
        STEP(0, REFILL(0));
    }
    while (phase0 < end) {
        STEP(0, REFILL(0));
    }
    SAVE(0, s);
    return 1;
slow0:
    SAVE(0, s);
    if (!slow_step(s))
        return 0;
    goto again;
}

TARGET int TWO(bfs_stream *a, bfs_stream *b)
{
    int64_t sign = INT64_MIN;
    OPAQUE(sign);
    const bfs_phase *const end0 = a->end, *const end1 = b->end;
    STATE(0);
    STATE(1);
    LOAD(0, a);
    LOAD(1, b);
again:
    REFILL(0);
    REFILL(1);
    while (phase0 < end0 - 1 && phase1 < end1 - 1) {
        STEP(0, );
        STEP(1, );
        STEP(0, REFILL(0));
        STEP(1, REFILL(1));
    }
    SAVE(0, a);
    SAVE(1, b);
    return ONE(phase0 < end0 - 1 ? b : a);
slow0:
    SAVE(0, a);
    if (!slow_step(a))
        return 0;
    LOAD(0, a);
    goto again;
slow1:
    SAVE(1, b);
    if (!slow_step(b))
        return 0;
    LOAD(1, b);
    goto again;
}

#undef STATE
#undef LOAD
#undef SAVE
#undef REFILL
#undef STEP
#undef ONE
#undef TWO
#undef TARGET
