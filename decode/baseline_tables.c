//go:build cgo

#include "bfs_baseline.h"

#include <string.h>

enum { ENTRIES = 1 << BFS_LOOKUP, ZRL = 0xf0 };

/* A symbol that is known from the looked-up bits. */
typedef struct {
    uint8_t length; /* of its code; 0: not known */
    uint8_t symbol;
} code;

/* canonical derives the codes as libjpeg does, and refuses what it refuses. */
static int canonical(bfs_table *t, code direct[ENTRIES])
{
    int32_t next = 0;
    int k = 0;
    for (int length = 1; length <= 16; length++, next <<= 1) {
        t->offset[length] = k - next;
        for (int i = 0; i < t->code[length - 1]; i++, k++, next++) {
            const uint8_t symbol = t->symbol[k] = t->code[16 + k];
            if (!t->ac && symbol > 15)
                return 0;
            if (length > BFS_LOOKUP || next >= 1 << length)
                continue;
            code *to = direct + (next << (BFS_LOOKUP - length));
            for (int n = 1 << (BFS_LOOKUP - length); n > 0; n--)
                *to++ = (code){(uint8_t)length, symbol};
        }
        if (next >= 1 << length && t->code[length - 1])
            return 0; /* too many codes, or one that is all ones */
        t->limit[length] = next << (16 - length);
    }
    t->limit[17] = INT32_MAX;
    return 1;
}

/* value extends the s bits before bit "end" of a look-up to a coefficient. */
static int value(int bits, int end, int s)
{
    const int v = bits >> (BFS_LOOKUP - end) & ((1 << s) - 1);
    return s == 0 || v >> (s - 1) ? v : v - (1 << s) + 1;
}

static bfs_step dc_step(code c)
{
    if (!c.length)
        return (bfs_step){.advance = BFS_NO_STEP, .shift = 63};
    return (bfs_step){.length = (uint8_t)(c.length + c.symbol), .advance = 1, .before = c.length, .shift = (uint8_t)(63 - c.symbol)};
}

/* ends reports that c is an end of block, which may have any run but 15. */
static int ends(code c) { return c.length && !(c.symbol & 15) && c.symbol != ZRL; }

/* after returns the code that follows the first n looked-up bits, if it is in them as a whole. */
static code after(const code direct[ENTRIES], int bits, int n)
{
    if (n >= BFS_LOOKUP)
        return (code){0, 0};
    const code c = direct[bits << n & (ENTRIES - 1)];
    return c.length <= BFS_LOOKUP - n ? c : (code){0, 0};
}

static bfs_step ac_step(const code direct[ENTRIES], int bits)
{
    const code a = direct[bits];
    if (!a.length)
        return (bfs_step){.advance = BFS_NO_STEP, .shift = 63};
    if (ends(a))
        return (bfs_step){.length = a.length, .advance = 1, .before = a.length, .shift = 63, .end = 127};
    const int s = a.symbol & 15, run = a.symbol >> 4, used = a.length + s;
    const int first = s ? 2 * run : 0, past = s ? 2 * run + 2 : 32; /* a run of 16 zeros has no value */
    bfs_step one = {.length = (uint8_t)used, .advance = (uint8_t)(past - 1), .before = a.length, .shift = (uint8_t)(63 - s),
                    .first = (uint8_t)first, .last = (uint8_t)first};
    if (used > BFS_LOOKUP || s > 7)
        return one;
    const code b = after(direct, bits, used);
    if (!b.length || b.symbol == ZRL)
        return one;
    if (ends(b)) {
        one.length = (uint8_t)(used + b.length);
        one.advance = (uint8_t)(past + 1);
        one.end = 127;
        return one;
    }
    const int last = past + 2 * (b.symbol >> 4), both = used + b.length + (b.symbol & 15);
    bfs_step two = {.length = (uint8_t)both, .advance = (uint8_t)(last + 1), .before = (uint8_t)(used + b.length),
                    .shift = (uint8_t)(63 - (b.symbol & 15)), .first = (uint8_t)first, .last = (uint8_t)last,
                    .value = (int8_t)(s ? value(bits, used, s) : 0)};
    const code c = after(direct, bits, both);
    if (ends(c)) {
        two.length = (uint8_t)(both + c.length);
        two.advance = (uint8_t)(last + 3);
        two.end = 127;
    }
    return two;
}

/* bfs_table_make makes the table of t->code, which is for AC if t->ac. It returns 0 if libjpeg refuses it. */
int bfs_table_make(bfs_table *t)
{
    code direct[ENTRIES];
    memset(direct, 0, sizeof direct);
    if (!canonical(t, direct))
        return 0;
    for (int i = 0; i < ENTRIES; i++)
        t->step[i] = t->ac ? ac_step(direct, i) : dc_step(direct[i]);
    return 1;
}
