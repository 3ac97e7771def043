//go:build cgo

#include "bfs_baseline.h"

#include <limits.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    LEAD = 8,                             /* bytes before the unread ones that may be read again */
    AHEAD = 2 * BFS_SLICE * BFS_WORST,    /* bytes without stuffing that are kept in the window */
};

_Static_assert(BFS_WINDOW >= LEAD + AHEAD + BFS_SLICE * BFS_WORST + 64, "a slice can read past the last byte");

enum { RST0 = 0xd0, EOI = 0xd9 };

/* destuff copies up to n bytes of entropy-coded data without the zeros that follow 0xff, and stops
 * at a marker. It may write 16 bytes more. */
static void destuff(bfs_scan *s, size_t n)
{
    const uint8_t *from = s->raw, *const last = s->raw_end;
    uint8_t *to = s->end, *const full = to + n;
    while (to < full) {
#if defined(__SSE2__)
        if (last - from > 17) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *)from);
            const unsigned found = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(-1)));
            _mm_storeu_si128((__m128i *)to, bytes);
            const int plain = found ? __builtin_ctz(found) : 16;
            from += plain;
            to += plain;
            if (plain == 16)
                continue;
        }
#endif
        if (from == last || (*from == 0xff && (last - from < 2 || from[1] != 0))) {
            s->ended = 1;
            break;
        }
        *to++ = *from;
        from += 1 + (*from == 0xff);
    }
    s->raw = from;
    s->end = to;
}

/* next_byte is the byte in the window that holds the next bit. */
static uint8_t *next_byte(const bfs_scan *s) { return (uint8_t *)s->stream.from - ((s->stream.count & 63) + 7) / 8; }

/* track moves what is known of the window's place in the file to the next byte. A zero was left out
 * after each 0xff. */
static void track(bfs_scan *s)
{
    uint8_t *const next = next_byte(s);
    size_t stuffed = 0;
    for (const uint8_t *p = s->known; p < next; p++)
        stuffed += *p == 0xff;
    s->known_raw += (size_t)(next - s->known) + stuffed;
    s->known = next;
}

/* fill moves what is unread to the window's beginning and fills up the rest. */
static void fill(bfs_scan *s)
{
    uint8_t *const begin = s->window + LEAD;
    const size_t kept = (size_t)(s->end - s->stream.from);
    if (s->entries.every) {
        track(s);
        s->known -= s->stream.from - begin;
    }
    memmove(s->window, s->stream.from - LEAD, LEAD + kept);
    s->stream.from = begin;
    s->end = begin + kept;
    destuff(s, AHEAD - kept);
}

/* unread is how many bits are left in the window; less than 0 if too many were read. */
static ptrdiff_t unread(const bfs_scan *s) { return (s->end - s->stream.from) * 8 + (ptrdiff_t)(s->stream.count & 63); }

/* start begins to read at s->raw. */
static void start(bfs_scan *s)
{
    s->ended = 0;
    s->known = s->end = s->window + LEAD;
    s->known_raw = s->raw;
    s->stream.from = s->end;
    s->stream.count = s->stream.bits = 0;
    destuff(s, AHEAD);
}

static void start_interval(bfs_scan *s)
{
    s->left = s->frame->interval ? s->frame->interval : INT_MAX;
    memset(s->predicted, 0, sizeof s->predicted);
    start(s);
}

/* end_interval checks that nothing but padding is left, up to a marker. */
static int end_interval(bfs_scan *s, int marker)
{
    if (!s->ended)
        fill(s);
    const ptrdiff_t rest = unread(s);
    if (!s->ended || rest < 0 || rest > 7 || s->raw_end - s->raw < 2 || s->raw[1] != marker)
        return BFS_LEFT_DATA;
    s->raw += 2;
    return BFS_OK;
}

/* add_up turns differences of DC coefficients into coefficients. */
static int add_up(bfs_scan *s, int16_t *blocks, int mcus)
{
    int beyond = 0;
    for (int i = 0; i < s->frame->components; i++) {
        const bfs_component *c = &s->frame->c[i];
        int32_t dc = s->predicted[i];
        for (int m = 0; m < mcus; m++) {
            int16_t *p = blocks + ((size_t)m * s->frame->blocks + c->first) * 64;
            for (int k = c->h * c->v; k > 0; k--, p += 64) {
                dc += *p;
                *p = (int16_t)dc;
                beyond |= dc != (int16_t)dc;
            }
        }
        s->predicted[i] = dc;
    }
    return beyond ? BFS_LEFT_DATA : BFS_OK;
}

/* An entry point is the distance in bits from the one before, or from the file's beginning, and
 * three predictors. Files that have larger ones have no entry points. */
enum { DISTANCE_BITS = 22, PREDICTOR_BITS = 14 };

static uint64_t position(bfs_scan *s)
{
    track(s);
    return (uint64_t)(s->known_raw - s->file) * 8 + (-s->stream.count & 7);
}

/* pack returns an entry point at the current place, 0 if it cannot be expressed. */
static uint64_t pack(const bfs_scan *s, uint64_t distance)
{
    uint64_t e = distance;
    if (distance >> DISTANCE_BITS)
        return 0;
    for (int i = 0; i < 3; i++) {
        const int32_t half = 1 << (PREDICTOR_BITS - 1), dc = s->predicted[i];
        if (dc < -half || dc >= half)
            return 0;
        e |= (uint64_t)(dc & (2 * half - 1)) << (DISTANCE_BITS + i * PREDICTOR_BITS);
    }
    return e;
}

static uint64_t distance_of(uint64_t e) { return e & ((1 << DISTANCE_BITS) - 1); }

static int32_t predictor_of(uint64_t e, int i)
{
    const int above = 64 - PREDICTOR_BITS - DISTANCE_BITS - i * PREDICTOR_BITS;
    return (int32_t)((int64_t)(e << above) >> (64 - PREDICTOR_BITS));
}

/* expect says where the next entry point is, after the one with this number. */
static void expect(bfs_scan *s, int number)
{
    s->entry = number;
    s->until = number < s->entries.count ? s->entries.every : INT_MAX;
}

/* pass compares the place with the entry point that is here, or makes it. */
static int pass(bfs_scan *s)
{
    const uint64_t at = position(s), e = pack(s, at - s->entry_position);
    if (!e || (s->entries.given && s->entries.given[s->entry] != e)) {
        s->entries.failed = 1;
        if (s->entries.given)
            return BFS_LEFT_DATA;
    }
    if (s->entries.made)
        s->entries.made[s->entry] = e;
    s->entry_position = at;
    expect(s, s->entry + 1);
    return BFS_OK;
}

/* settle does what is due before the next MCU. */
static int settle(bfs_scan *s)
{
    if (s->left == 0) {
        const int result = end_interval(s, RST0 + (s->restarts++ & 7));
        if (result != BFS_OK)
            return result;
        start_interval(s);
    }
    return s->until == 0 ? pass(s) : BFS_OK;
}

void bfs_scan_start(bfs_scan *s)
{
    s->raw = s->frame->scan;
    s->until = INT_MAX;
    if (s->entries.every)
        expect(s, 0);
    start_interval(s);
}

/* bfs_scan_read decodes the next n MCUs. Their blocks must be zeros before, except where
 * only the bits that they take are of interest. */
int bfs_scan_read(bfs_scan *s, int16_t *to, int n)
{
    const int most = BFS_SLICE / s->frame->blocks;
    while (n > 0) {
        int result = settle(s);
        if (result != BFS_OK)
            return result;
        int now = n < most ? n : most;
        now = now < s->left ? now : s->left;
        now = now < s->until ? now : s->until;
        const int blocks = now * s->frame->blocks;
        if (!s->ended && s->end - s->stream.from < blocks * BFS_WORST + LEAD)
            fill(s);
        s->stream.at = (uint8_t *)to;
        s->stream.phase = s->phase;
        s->stream.table = s->first;
        if (!s->entropy(&s->stream, s->phase + blocks) || unread(s) < 0)
            return BFS_LEFT_DATA;
        result = add_up(s, to, now);
        if (result != BFS_OK)
            return result;
        to += (size_t)blocks * 64;
        n -= now;
        s->mcu += now;
        s->left -= now;
        s->until -= now;
    }
    return BFS_OK;
}

/* jump goes on at the given entry point with this number. */
static int jump(bfs_scan *s, int number)
{
    for (; s->entry <= number; s->entry++)
        s->entry_position += distance_of(s->entries.given[s->entry]);
    const int interval = s->frame->interval;
    const uint64_t byte = s->entry_position / 8;
    if (byte < (uint64_t)(s->frame->scan - s->file) || byte >= (uint64_t)(s->raw_end - s->file))
        return BFS_LEFT_DATA;
    s->mcu = (number + 1) * s->entries.every;
    s->restarts = interval ? s->mcu / interval : 0;
    s->left = interval ? interval - s->mcu % interval : INT_MAX;
    for (int i = 0; i < 3; i++)
        s->predicted[i] = predictor_of(s->entries.given[number], i);
    s->raw = s->file + byte;
    start(s);
    /* The entropy decoder starts with a whole number of bytes that were read. */
    const unsigned skip = s->entry_position % 8;
    if (skip) {
        s->stream.bits = (uint64_t)*s->stream.from++ << (56 + skip);
        s->stream.count = 8 - skip;
    }
    expect(s, number + 1);
    return unread(s) < 0 ? BFS_LEFT_DATA : BFS_OK;
}

/* bfs_scan_seek goes to an MCU that is ahead, by way of the last entry point before it. What
 * is decoded on the way is written to a place that has room for so many MCUs. */
int bfs_scan_seek(bfs_scan *s, int mcu, int16_t *to, int room)
{
    int number = mcu / s->entries.every - 1, result = BFS_OK;
    number = number < s->entries.count ? number : s->entries.count - 1;
    if (number >= s->entry && (number + 1) * s->entries.every > s->mcu)
        result = jump(s, number);
    while (result == BFS_OK && s->mcu < mcu)
        result = bfs_scan_read(s, to, mcu - s->mcu < room ? mcu - s->mcu : room);
    return result;
}

/* bfs_scan_arrive checks the place after some MCUs against the given entry points: it must be
 * that of the next one, if it is here, and else not beyond it. */
int bfs_scan_arrive(bfs_scan *s)
{
    if (s->mcu == s->frame->across * s->frame->down)
        return BFS_OK; /* bfs_scan_end checks it */
    const int result = settle(s);
    if (result != BFS_OK || s->entry == s->entries.count)
        return result;
    return position(s) <= s->entry_position + distance_of(s->entries.given[s->entry]) ? BFS_OK : BFS_LEFT_DATA;
}

/* bfs_scan_end checks what follows the MCUs that were read: the end, or something that contains it
 * if there are more. */
int bfs_scan_end(bfs_scan *s)
{
    if (s->mcu == s->frame->across * s->frame->down)
        return end_interval(s, EOI);
    return bfs_jpeg_ends(s->raw, (size_t)(s->raw_end - s->raw)) ? BFS_OK : BFS_LEFT_DATA;
}
