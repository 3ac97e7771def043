/* Entropy-coded data to coefficients. Where a code begins is only known once all codes before it are
 * decoded; but a decoder that begins at a wrong place soon falls into step with the right one. So each thread decodes a
 * stretch from a guess, and again from where the stretch before it ended, until nothing changes. The first stretch
 * of a segment is right from the start, so in the end all are. Only then is anything written or judged.
 *
 * An image is left to the processor, by its verdict, wherever our own decoder leaves it to libjpeg-turbo. */
#include "batch.h"

enum {
    ENTROPY_THREADS = 256,
    /* Areas of one colour can keep decoders out of step. If they do so for this many bits, the
     * image is left to the processor, because one thread would decode those bits while all others
     * wait. */
    MOST_ASTRAY = 1 << 17,
};

/* An image that is being decoded. */
typedef struct {
    const bfs_packed *k;
    const bfs_decoding *tables;
    const bfs_segment *segments;
    const uint32_t *segment_of;
    const uint8_t *data;
    uint64_t *state, *from; /* where a stretch begins, and from where it was decoded last */
    uint32_t *count;        /* blocks that end in it; later, those of its segment that end before it */
    int16_t *coefficients;
    uint32_t *verdict;
} decoding;

BFS_INLINE decoding decoding_of(const bfs_batch *b, int i)
{
    const bfs_encoded *e = (const bfs_encoded *)(b->staging + b->encoded) + i;
    const uint8_t *p = b->staging + e->packed;
    uint8_t *w = b->work + e->work;
    const bfs_packed *k = (const bfs_packed *)p;
    return (decoding){
        k, (const bfs_decoding *)(p + k->tables), (const bfs_segment *)(p + k->segment), (const uint32_t *)(p + k->segment_of), p + k->data,
        (uint64_t *)(w + k->state), (uint64_t *)(w + k->from), (uint32_t *)(w + k->count), (int16_t *)(w + k->coefficients),
        (uint32_t *)(b->work + b->verdicts) + i,
    };
}

/* A place between two codes: which bit of the segment, which block of the MCU, which coefficient. */
BFS_INLINE uint64_t place_of(uint32_t bit, uint32_t slot, uint32_t k) { return (uint64_t)bit << 16 | slot << 8 | k; }

/* peek returns the 32 bits from a bit on. data is aligned to 8 bytes. */
BFS_INLINE uint32_t peek(const uint8_t *data, uint32_t bit)
{
    const uint32_t *w = (const uint32_t *)data + (bit >> 5);
    const uint64_t bits = (uint64_t)__builtin_bswap32(w[0]) << 32 | __builtin_bswap32(w[1]);
    return (uint32_t)(bits << (bit & 31) >> 32);
}

BFS_INLINE bfs_code code_at(const bfs_decoding *t, uint32_t bits)
{
    const bfs_code c = t->known[bits >> (32 - BFS_PACKED_BITS)];
    return c.length ? c : bfs_codes_find(&t->codes, (uint64_t)bits << 32);
}

BFS_INLINE int32_t value_of(uint32_t bits, int size)
{
    const int32_t v = (int32_t)(bits >> 1 >> (31 - size));
    return size && v < 1 << (size - 1) ? v - (1 << size) + 1 : v;
}

/* Where the blocks of a stretch are written: to is the place of number block of the segment's total
 * blocks. */
typedef struct {
    int16_t *to;
    uint32_t block, total;
    int exact; /* the last one must be followed by the segment's end */
} writing;

/* decode decodes stretch i from a place, and returns the place after it. Without w it only counts
 * blocks. It goes on after an error, since the place may be a guess. */
BFS_INLINE uint64_t decode(const decoding *d, uint32_t i, uint64_t from, const writing *w, uint32_t *blocks)
{
    const bfs_packed *p = d->k;
    const bfs_segment *s = &d->segments[d->segment_of[i]];
    const uint32_t last = (i + 1 - s->stretch) * (uint32_t)p->bits, end = last < s->bits ? last : s->bits;
    const uint8_t *data = d->data + s->at;
    uint32_t bit = (uint32_t)(from >> 16), slot = (uint32_t)(from >> 8) & 255, k = (uint32_t)from & 255, n = 0;
    while (bit < end && (!w || w->block + n < w->total)) {
        const uint32_t bits = peek(data, bit);
        const bfs_code c = code_at(&d->tables[p->table[k > 0][slot]], bits);
        const int size = c.symbol & 15;
        if (w && !c.length)
            STORE(*d->verdict, 1);
        if (!c.length) {
            bit++;
            continue;
        }
        k += k ? c.symbol >> 4 : 0;
        if (size || !k) {
            if (w && k > 63)
                STORE(*d->verdict, 1);
            else if (w)
                w->to[(uint64_t)(w->block + n) * 64 + bfs_natural[k]] = (int16_t)value_of(bits << c.length, size);
            k++;
        } else if (c.symbol == 0xf0) {
            k++;
            if (w && k > 64)
                STORE(*d->verdict, 1);
        } else {
            k = 64;
        }
        bit += (uint32_t)c.length + (uint32_t)size;
        if (k >= 64) {
            k = 0;
            n++;
            slot = slot + 1 == (uint32_t)p->blocks ? 0 : slot + 1;
        }
    }
    if (w && n && w->block + n == w->total && (bit > s->bits || (w->exact && s->bits - bit > 7)))
        STORE(*d->verdict, 1);
    *blocks = n;
    return place_of(bit, slot, k);
}

/* synchronise finds where all stretches begin. Even and odd ones take turns, so that none reads
 * what another writes. changed is the last round in which something changed. It returns whether the
 * last round changed nothing. */
BFS_INLINE int synchronise(const decoding *d, uint32_t *changed)
{
    const int n = d->k->stretches;
    EACH(i, n)
    {
        d->state[i] = place_of(((uint32_t)i - d->segments[d->segment_of[i]].stretch) * (uint32_t)d->k->bits, 0, 0);
        d->from[i] = ~(uint64_t)0;
    }
    EACH(i, 1)
        *changed = 0;
    SYNC();
    for (uint32_t round = 1; round * (uint32_t)d->k->bits <= MOST_ASTRAY; round++) {
        for (int odd = 0; odd < 2; odd++) {
            EACH(half, (n - odd + 1) / 2)
            {
                const uint32_t i = 2 * (uint32_t)half + (uint32_t)odd;
                const uint64_t from = d->state[i];
                if (d->from[i] == from)
                    continue;
                d->from[i] = from;
                const uint64_t to = decode(d, i, from, 0, &d->count[i]);
                if (i + 1 < (uint32_t)n && d->segment_of[i + 1] == d->segment_of[i] && d->state[i + 1] != to) {
                    d->state[i + 1] = to;
                    STORE(*changed, round);
                }
            }
            SYNC();
        }
        /* Other threads may be in the next round already. */
        if (LOAD(*changed) < round)
            return 1;
    }
    return 0;
}

BFS_INLINE uint32_t blocks_of(const bfs_packed *p, int segment)
{
    const int left = p->mcus - segment * p->interval;
    return (uint32_t)(left < p->interval ? left : p->interval) * (uint32_t)p->blocks;
}

/* write writes all coefficients. DC coefficients are still differences. */
BFS_INLINE void write_all(const decoding *d)
{
    const bfs_packed *p = d->k;
    EACH(s, p->segments)
    {
        const uint32_t end = s + 1 < p->segments ? d->segments[s + 1].stretch : (uint32_t)p->stretches;
        uint32_t sum = 0;
        for (uint32_t i = d->segments[s].stretch; i < end; i++) {
            const uint32_t n = d->count[i];
            d->count[i] = sum;
            sum += n;
        }
        if (sum < blocks_of(p, s))
            STORE(*d->verdict, 1);
    }
    SYNC();
    EACH(i, p->stretches)
    {
        const int s = (int)d->segment_of[i];
        const writing w = {d->coefficients + (uint64_t)s * (uint32_t)(p->interval * p->blocks) * 64, d->count[i], blocks_of(p, s), s + 1 < p->segments || p->complete};
        uint32_t blocks;
        decode(d, (uint32_t)i, d->state[i], &w, &blocks);
    }
    SYNC();
}

/* add_up adds up a component's DC coefficients of MCUs, beginning again at each segment. */
BFS_INLINE uint32_t add_up(const decoding *d, const bfs_component *c, int from, int end, uint32_t sum, int store)
{
    const bfs_packed *p = d->k;
    for (int m = from; m < end; m++) {
        int16_t *dc = d->coefficients + ((uint64_t)m * (uint32_t)p->blocks + (uint32_t)c->first) * 64;
        if (m % p->interval == 0)
            sum = 0;
        for (int i = c->h * c->v; i > 0; i--, dc += 64) {
            sum += (uint32_t)*dc;
            if (store && (int32_t)sum != (int16_t)sum)
                STORE(*d->verdict, 1);
            if (store)
                *dc = (int16_t)sum;
        }
    }
    return sum;
}

/* predict turns differences into coefficients. It does so in pieces: it adds up each piece, then
 * finds the sum of what precedes each, and adds from there. */
BFS_INLINE void predict(const decoding *d, uint32_t *sums)
{
    const bfs_packed *p = d->k;
    const int n = ENTROPY_THREADS, size = (p->mcus + n - 1) / n;
    EACH(i, n * p->components)
    {
        const int from = i % n * size, to = from + size < p->mcus ? from + size : p->mcus;
        sums[i] = add_up(d, &p->c[i / n], from, to, 0, 0);
    }
    SYNC();
    EACH(c, p->components)
    {
        uint32_t sum = 0;
        for (int i = 0; i < n; i++) {
            const int from = i * size, begins = (from + p->interval - 1) / p->interval * p->interval;
            const uint32_t piece = sums[c * n + i];
            sums[c * n + i] = sum;
            sum = piece + (begins < from + size ? 0 : sum);
        }
    }
    SYNC();
    EACH(i, n * p->components)
    {
        const int from = i % n * size, to = from + size < p->mcus ? from + size : p->mcus;
        add_up(d, &p->c[i / n], from, to, sums[i], 1);
    }
}

/* Blocks: JPEGs. Shared memory: 4 bytes, and 12 for each thread. */
KERNEL(ENTROPY_THREADS) bfs_entropy(const bfs_batch *b)
{
    SHARED(uint32_t, shared);
    const decoding d = decoding_of(b, (int)BX);
    EACH(first, 1)
        *d.verdict = d.k->mcus == 0;
    EACH(i, d.k->mcus * d.k->blocks * 16)
        ((uint64_t *)d.coefficients)[i] = 0;
    if (synchronise(&d, shared)) {
        write_all(&d);
        predict(&d, shared + 1);
    } else {
        STORE(*d.verdict, 1);
    }
}
