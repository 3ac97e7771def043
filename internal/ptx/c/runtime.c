#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What a thread knows besides its registers. */
typedef struct {
    unsigned tid, ntid, ctaid[3], nctaid[3];
    const uint8_t *params;
    uint8_t *shared;
    size_t shared_size;
    int *error;
} ptx_thread;

/* A kernel's code runs a thread up to the next barrier: its number is returned, 0 at the end. */
typedef int ptx_code(const ptx_thread *t, void *registers);

enum { PTX_LAUNCH = 1, PTX_SHARED, PTX_BARRIER, PTX_MEMORY };

static inline __attribute__((unused)) void *ptx_shared(const ptx_thread *t, uint64_t at, unsigned size)
{
    static _Thread_local uint64_t elsewhere[2];
    if (at <= t->shared_size && size <= t->shared_size - at && at % size == 0)
        return t->shared + at;
    *t->error = PTX_SHARED;
    return elsewhere;
}

static inline __attribute__((unused)) uint32_t ptx_prmt(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned s = selector >> 4 * i & 15;
        const uint8_t v = (uint8_t)(bytes >> 8 * (s & 7));
        result |= (uint32_t)(s & 8 ? (v & 128 ? 255 : 0) : v) << 8 * i;
    }
    return result;
}

static inline __attribute__((unused)) uint64_t ptx_bfe(uint64_t a, uint32_t at, uint32_t n, int bits, int is_signed)
{
    at &= 255, n &= 255;
    const int64_t whole = bits == 32 ? (is_signed ? (int32_t)a : (int64_t)(uint32_t)a) : (int64_t)a;
    const uint64_t from = at >= 64 ? (is_signed && whole < 0 ? ~0ull : 0) : is_signed ? (uint64_t)(whole >> at) : (bits == 32 ? (uint32_t)a : a) >> at;
    if (n == 0)
        return 0;
    if (n >= (unsigned)bits)
        return from;
    const uint64_t low = from & ((1ull << n) - 1);
    return is_signed && low >> (n - 1) ? low | ~0ull << n : low;
}

static inline __attribute__((unused)) uint64_t ptx_bfi(uint64_t a, uint64_t b, uint32_t at, uint32_t n, unsigned bits)
{
    at &= 255, n &= 255;
    if (at >= bits || n == 0)
        return b;
    const uint64_t mask = (n > 63 ? ~0ull : (1ull << n) - 1) << at;
    return (b & ~mask) | (a << at & mask);
}

static inline __attribute__((unused)) uint32_t ptx_shf_l(uint32_t a, uint32_t b, uint32_t n) { return (uint32_t)((((uint64_t)b << 32 | a) << n) >> 32); }
static inline __attribute__((unused)) uint32_t ptx_shf_r(uint32_t a, uint32_t b, uint32_t n) { return n > 31 ? b : (uint32_t)(((uint64_t)b << 32 | a) >> n); }

/* ptx_block runs one block. at has, for each thread, where it is: -1 before its end, then 0. */
static int ptx_block(ptx_code *code, ptx_thread t, uint8_t *registers, size_t each, int *at, int reversed)
{
    memset(t.shared, 0xa5, t.shared_size);
    memset(registers, 0x5a, each * t.ntid);
    for (unsigned i = 0; i < t.ntid; i++)
        *(int *)(registers + i * each) = 0;
    do {
        for (unsigned i = 0; i < t.ntid; i++) {
            t.tid = reversed ? t.ntid - 1 - i : i;
            at[t.tid] = code(&t, registers + t.tid * each);
            if (*t.error)
                return *t.error;
        }
        for (unsigned i = 1; i < t.ntid; i++)
            if ((at[i] == 0) != (at[0] == 0))
                return PTX_BARRIER;
    } while (at[0] != 0);
    return 0;
}

static int ptx_run(ptx_code *code, size_t each, size_t params_size, const unsigned grid[3], const unsigned block[3], size_t shared, const void *params, size_t size)
{
    if (size != params_size || block[0] < 1 || block[0] > 1024 || block[1] != 1 || block[2] != 1 || grid[0] < 1 || grid[1] < 1 || grid[2] < 1 || shared > 48 << 10)
        return PTX_LAUNCH;
    const int reversed = getenv("PTX_REVERSED") != NULL;
    const uint64_t row = grid[0], plane = row * grid[1], blocks = plane * grid[2];
    int result = PTX_MEMORY, error = 0;
    uint8_t *const registers = aligned_alloc(16, each * block[0]), *const memory = aligned_alloc(16, (shared + 16) & ~(size_t)15);
    int *const at = calloc(block[0], sizeof *at);
    if (registers && memory && at) {
        result = 0;
        ptx_thread t = {.ntid = block[0], .nctaid = {grid[0], grid[1], grid[2]}, .params = params, .shared = memory, .shared_size = shared, .error = &error};
        for (uint64_t i = 0; i < blocks && !result; i++) {
            const uint64_t n = reversed ? blocks - 1 - i : i;
            t.ctaid[0] = (unsigned)(n % row), t.ctaid[1] = (unsigned)(n % plane / row), t.ctaid[2] = (unsigned)(n / plane);
            result = ptx_block(code, t, registers, each, at, reversed);
        }
    }
    free(registers);
    free(memory);
    free(at);
    return result;
}
