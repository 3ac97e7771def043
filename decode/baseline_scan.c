//go:build cgo

#include "bfs_baseline.h"

#include <limits.h>
#include <string.h>

enum { RST0 = 0xd0, EOI = 0xd9 };

static void start_interval(bfs_scan *s)
{
    s->left = s->frame->interval ? s->frame->interval : INT_MAX;
    memset(s->predicted, 0, sizeof s->predicted);
    bfs_window_start(s);
}

/* bfs_scan_at_marker checks that only padding is left, up to the marker, which is then at s->raw.
 */
int bfs_scan_at_marker(bfs_scan *s)
{
    if (!s->ended)
        bfs_window_fill(s);
    const ptrdiff_t rest = bfs_unread(s);
    return s->ended && rest >= 0 && rest <= 7 && s->raw_end - s->raw >= 2 ? BFS_OK : BFS_LEFT_DATA;
}

static int end_interval(bfs_scan *s, int marker)
{
    if (bfs_scan_at_marker(s) != BFS_OK || s->raw[1] != marker)
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

/* An entry point is the distance in bits from the previous one, or from the file's beginning, and
 * three predictors. Files with larger values have no entry points. */
enum { DISTANCE_BITS = 22, PREDICTOR_BITS = 14 };

static uint64_t position(bfs_scan *s)
{
    bfs_window_track(s);
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

/* bfs_entries_need finds the part of a scan's data that jump and limit need for the MCUs from first
 * up to end. */
bfs_part bfs_entries_need(const bfs_entries *e, bfs_part scan, int first, int end)
{
    bfs_part p = scan;
    uint64_t bits = 0;
    for (int i = 0; i < e->count && p.to == scan.to; i++) {
        const int mcu = (i + 1) * e->every;
        bits += distance_of(e->given[i]);
        if (mcu <= first)
            p.from = bits / 8;
        if (mcu >= end && bits / 8 + 2 < p.to)
            p.to = bits / 8 + 2;
    }
    return p;
}

/* expect sets the place of the next entry point, after the one with this number. */
static void expect(bfs_scan *s, int number)
{
    s->entry = number;
    s->until = number < s->entries.count ? s->entries.every : INT_MAX;
}

/* pass compares the present place with its entry point, or makes one. */
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
    s->raw_end = s->entries.given ? s->raw : s->file_end; /* bfs_scan_seek allows reading more */
    s->until = INT_MAX;
    if (s->entries.every)
        expect(s, 0);
    start_interval(s);
    /* Decoding looks beyond the last byte, in damaged data far beyond. */
    memset(s->end, 0, (size_t)(s->window + BFS_WINDOW - s->end));
}

/* bfs_scan_begin prepares to decode a slice of the wanted MCUs. */
int bfs_scan_begin(bfs_scan *s)
{
    const int result = settle(s);
    if (result != BFS_OK)
        return result;
    int now = BFS_SLICE / s->blocks;
    now = now < s->wanted ? now : s->wanted;
    now = now < s->left ? now : s->left;
    now = now < s->until ? now : s->until;
    if (!s->ended && s->end - s->stream.from < now * s->blocks * BFS_WORST + BFS_LEAD)
        bfs_window_fill(s);
    s->slice = now;
    return BFS_OK;
}

static int begin_slice(bfs_scan *s)
{
    const int result = bfs_scan_begin(s);
    s->stream.at = (uint8_t *)s->to;
    s->stream.phase = s->phase;
    s->stream.end = s->phase + s->slice * s->blocks;
    s->stream.table = s->first;
    return result;
}

/* bfs_scan_passed completes a decoded slice. */
int bfs_scan_passed(bfs_scan *s)
{
    if (bfs_unread(s) < 0)
        return BFS_LEFT_DATA;
    s->mcu += s->slice;
    s->wanted -= s->slice;
    s->left -= s->slice;
    s->until -= s->slice;
    s->slice = 0;
    return BFS_OK;
}

static int end_slice(bfs_scan *s)
{
    if (add_up(s, s->to, s->slice) != BFS_OK)
        return BFS_LEFT_DATA;
    s->to += (size_t)s->slice * s->blocks * 64;
    return bfs_scan_passed(s);
}

/* bfs_scan_want says where the next n MCUs go. Their blocks must be zeros, unless only their length
 * in bits is needed. */
void bfs_scan_want(bfs_scan *s, int16_t *to, int n)
{
    s->to = to;
    s->wanted = n;
}

/* bfs_scan_go decodes the wanted MCUs. */
int bfs_scan_go(bfs_scan *s)
{
    int result = BFS_OK;
    while (result == BFS_OK && s->wanted > 0) {
        if (s->slice == 0)
            result = begin_slice(s);
        if (result == BFS_OK)
            result = s->by->entropy(&s->stream) ? end_slice(s) : BFS_LEFT_DATA;
    }
    return result;
}

/* bfs_scan_go_together decodes for two scans until one is done, in less time than one after the
 * other: one decodes while the other waits. */
int bfs_scan_go_together(bfs_scan *a, bfs_scan *b)
{
    int result = BFS_OK;
    while (result == BFS_OK && a->wanted > 0 && b->wanted > 0) {
        if (a->slice == 0)
            result = begin_slice(a);
        if (result == BFS_OK && b->slice == 0)
            result = begin_slice(b);
        if (result == BFS_OK && !a->by->together(&a->stream, &b->stream))
            result = BFS_LEFT_DATA;
        if (result == BFS_OK && a->stream.phase == a->stream.end)
            result = end_slice(a);
        if (result == BFS_OK && b->stream.phase == b->stream.end)
            result = end_slice(b);
    }
    return result;
}

/* begin_at makes a bit of a byte in the window the next one, and forgets what was read ahead. */
static void begin_at(bfs_scan *s, const uint8_t *byte, unsigned bit)
{
    s->stream.from = byte + (bit > 0);
    s->stream.bits = bit ? (uint64_t)*byte << (56 + bit) : 0;
    s->stream.count = -bit & 7;
}

/* limit allows filling the window up to the first given entry point at or after the MCU end. */
static void limit(bfs_scan *s, int end)
{
    const uint64_t most = (uint64_t)(s->file_end - s->file);
    uint64_t bits = s->entry_position, stop = most;
    for (int i = s->entry; i < s->entries.count; i++) {
        bits += distance_of(s->entries.given[i]);
        if ((i + 1) * s->entries.every >= end) {
            stop = bits / 8 + 2; /* the byte with the last bits may be followed by a zero */
            break;
        }
    }
    s->raw_end = s->file + (stop < most ? stop : most);
    if (s->raw_end < s->raw)
        s->raw_end = s->raw;
    s->ended = 0;
}

/* jump continues at the given entry point with this number, which must be ahead. */
static int jump(bfs_scan *s, int number, int end)
{
    while (s->entry <= number)
        s->entry_position += distance_of(s->entries.given[s->entry++]);
    const int interval = s->frame->interval;
    const uint64_t byte = s->entry_position / 8;
    if (byte < (uint64_t)(s->frame->scan - s->file) || byte >= (uint64_t)(s->file_end - s->file))
        return BFS_LEFT_DATA;
    s->raw = s->file + byte;
    s->mcu = (number + 1) * s->entries.every;
    s->restarts = interval ? s->mcu / interval : 0;
    s->left = interval ? interval - s->mcu % interval : INT_MAX;
    for (int i = 0; i < 3; i++)
        s->predicted[i] = predictor_of(s->entries.given[number], i);
    limit(s, end);
    bfs_window_start(s);
    begin_at(s, s->stream.from, s->entry_position % 8);
    expect(s, number + 1);
    return bfs_unread(s) < 0 ? BFS_LEFT_DATA : BFS_OK;
}

/* bfs_scan_seek goes to an MCU ahead, by way of the last entry point before it, to decode MCUs up
 * to end. MCUs decoded on the way are written to a place with space for room MCUs. */
int bfs_scan_seek(bfs_scan *s, int mcu, int end, int16_t *to, int room)
{
    int number = mcu / s->entries.every - 1;
    number = number < s->entries.count ? number : s->entries.count - 1;
    int result = BFS_OK;
    if (number >= s->entry) {
        result = jump(s, number, end);
    } else {
        begin_at(s, bfs_next_byte(s), -s->stream.count & 7); /* the following bytes may not have been available before */
        limit(s, end);
    }
    while (result == BFS_OK && s->mcu < mcu) {
        bfs_scan_want(s, to, mcu - s->mcu < room ? mcu - s->mcu : room);
        result = bfs_scan_go(s);
    }
    return result;
}

/* bfs_scan_arrive checks the place after some MCUs against the given entry points: it must equal
 * the next entry point if that is here, and otherwise not be beyond it. */
int bfs_scan_arrive(bfs_scan *s)
{
    if (s->mcu == s->frame->across * s->frame->down)
        return BFS_OK; /* bfs_scan_end checks it */
    const int result = settle(s);
    if (result != BFS_OK || s->entry == s->entries.count)
        return result;
    return position(s) <= s->entry_position + distance_of(s->entries.given[s->entry]) ? BFS_OK : BFS_LEFT_DATA;
}

/* bfs_scan_end checks what follows the MCUs that were read: the end, or if there are more MCUs,
 * something that contains the end. */
int bfs_scan_end(bfs_scan *s)
{
    if (s->mcu == s->frame->across * s->frame->down)
        return end_interval(s, EOI);
    return s->entries.part.to || bfs_jpeg_ends(s->raw, (size_t)(s->file_end - s->raw)) ? BFS_OK : BFS_LEFT_DATA;
}
