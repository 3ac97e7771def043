//go:build cgo

#include "bfs_baseline.h"

#include <string.h>

enum { ENTRIES = 1 << BFS_LOOKUP, ZRL = 0xf0 };

/* bfs_codes_make derives codes from their counts and symbols as libjpeg does. known gets the codes
 * that lookup bits suffice to recognize. It returns 0 if libjpeg refuses the codes. */
int bfs_codes_make(bfs_codes *c, const uint8_t *definition, int lookup, bfs_code *known)
{
    int32_t next = 0;
    int k = 0;
    memset(known, 0, sizeof *known << lookup);
    for (int length = 1; length <= 16; length++, next <<= 1) {
        c->offset[length] = k - next;
        for (int i = 0; i < definition[length - 1]; i++, k++, next++) {
            c->symbol[k] = definition[16 + k];
            if (length > lookup || next >= 1 << length)
                continue;
            bfs_code *to = known + (next << (lookup - length));
            for (int n = 1 << (lookup - length); n > 0; n--)
                *to++ = (bfs_code){(uint8_t)length, c->symbol[k]};
        }
        if (next >= 1 << length && definition[length - 1])
            return 0; /* too many codes, or one that is all ones */
        c->limit[length] = next << (16 - length);
    }
    return 1;
}

/* bfs_codes_are_sizes reports that all symbols are valid for DC coefficients. */
int bfs_codes_are_sizes(const uint8_t *definition)
{
    int symbols = 0, all = 1;
    for (int i = 0; i < 16; i++)
        symbols += definition[i];
    for (int i = 0; i < symbols; i++)
        all &= definition[16 + i] <= 15;
    return all;
}

/* value extends the s bits before bit "end" of a look-up to a coefficient. */
static int value(int bits, int end, int s)
{
    const int v = bits >> (BFS_LOOKUP - end) & ((1 << s) - 1);
    return s == 0 || v >> (s - 1) ? v : v - (1 << s) + 1;
}

static bfs_step dc_step(bfs_code c)
{
    if (!c.length)
        return (bfs_step){.advance = BFS_NO_STEP, .shift = 63};
    return (bfs_step){.length = (uint8_t)(c.length + c.symbol), .advance = 2, .before = c.length, .shift = (uint8_t)(63 - c.symbol)};
}

/* ends reports that c ends a block. The symbol may have any run but 15. */
static int ends(bfs_code c) { return c.length && !(c.symbol & 15) && c.symbol != ZRL; }

/* after returns the code after the first n looked-up bits, if all of it is looked up. */
static bfs_code after(const bfs_code direct[ENTRIES], int bits, int n)
{
    if (n >= BFS_LOOKUP)
        return (bfs_code){0, 0};
    const bfs_code c = direct[bits << n & (ENTRIES - 1)];
    return c.length <= BFS_LOOKUP - n ? c : (bfs_code){0, 0};
}

static bfs_step ac_step(const bfs_code direct[ENTRIES], int bits)
{
    const bfs_code a = direct[bits];
    if (!a.length)
        return (bfs_step){.advance = BFS_NO_STEP, .shift = 63};
    if (ends(a))
        return (bfs_step){.length = a.length, .advance = 0, .before = a.length, .shift = 63, .end = 127};
    const int s = a.symbol & 15, run = a.symbol >> 4, used = a.length + s;
    const int first = s ? 2 * run : 0, past = s ? 2 * run + 2 : 32; /* a run of 16 zeros has no value */
    bfs_step one = {.length = (uint8_t)used, .advance = (uint8_t)past, .before = a.length, .shift = (uint8_t)(63 - s),
                    .first = (uint8_t)first, .last = (uint8_t)first};
    if (used > BFS_LOOKUP || s > 7)
        return one;
    const bfs_code b = after(direct, bits, used);
    if (!b.length || b.symbol == ZRL)
        return one;
    if (ends(b)) {
        one.length = (uint8_t)(used + b.length);
        one.end = 127;
        return one;
    }
    const int last = past + 2 * (b.symbol >> 4), both = used + b.length + (b.symbol & 15);
    bfs_step two = {.length = (uint8_t)both, .advance = (uint8_t)(last + 2), .before = (uint8_t)(used + b.length),
                    .shift = (uint8_t)(63 - (b.symbol & 15)), .first = (uint8_t)first, .last = (uint8_t)last,
                    .value = (int8_t)(s ? value(bits, used, s) : 0)};
    const bfs_code c = after(direct, bits, both);
    if (ends(c)) {
        two.length = (uint8_t)(both + c.length);
        two.end = 127;
    }
    return two;
}

/* bfs_table_make makes the table for t->code, an AC table if t->ac. It returns 0 if libjpeg refuses
 * it. */
int bfs_table_make(bfs_table *t)
{
    bfs_code direct[ENTRIES];
    if ((!t->ac && !bfs_codes_are_sizes(t->code)) || !bfs_codes_make(&t->codes, t->code, BFS_LOOKUP, direct))
        return 0;
    for (int i = 0; i < ENTRIES; i++)
        t->step[i] = t->ac ? ac_step(direct, i) : dc_step(direct[i]);
    return 1;
}
