//go:build cgo

#include "bfs_baseline.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { AHEAD = 2 * BFS_SLICE * BFS_WORST }; /* bytes without stuffing that are kept in the window */

_Static_assert(BFS_WINDOW >= BFS_LEAD + AHEAD + BFS_SLICE * BFS_WORST + 64, "a slice can read past the last byte");

/* bfs_window_destuff copies up to n bytes of entropy-coded data without the zeros that follow 0xff, and
 * stops at a marker. It may write 16 bytes more. */
void bfs_window_destuff(bfs_scan *s, size_t n)
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

/* bfs_window_track advances the known place of the window in the file to the next byte. A zero was
 * left out after each 0xff. */
void bfs_window_track(bfs_scan *s)
{
    uint8_t *const next = bfs_next_byte(s);
    size_t stuffed = 0;
    for (const uint8_t *p = s->known; p < next; p++)
        stuffed += *p == 0xff;
    s->known_raw += (size_t)(next - s->known) + stuffed;
    s->known = next;
}

/* bfs_window_fill moves the unread bytes to the window's beginning and fills up the rest. */
void bfs_window_fill(bfs_scan *s)
{
    uint8_t *const begin = s->window + BFS_LEAD;
    const size_t kept = (size_t)(s->end - s->stream.from);
    if (s->entries.every) {
        bfs_window_track(s);
        s->known -= s->stream.from - begin;
    }
    memmove(s->window, s->stream.from - BFS_LEAD, BFS_LEAD + kept);
    s->stream.from = begin;
    s->end = begin + kept;
    bfs_window_destuff(s, kept < AHEAD ? AHEAD - kept : 0);
}

/* bfs_window_start begins to read at s->raw. */
void bfs_window_start(bfs_scan *s)
{
    s->ended = 0;
    s->known = s->end = s->window + BFS_LEAD;
    s->known_raw = s->raw;
    s->stream.from = s->end;
    s->stream.count = s->stream.bits = 0;
    bfs_window_destuff(s, AHEAD);
}
