//go:build cgo && linux

#include "starve.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#ifdef __GLIBC__

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static __thread struct {
    long count, nth;
    int counting, rest;
} state;

static int denied(void)
{
    if (!state.counting)
        return 0;
    state.count++;
    if (state.count != state.nth && !(state.rest && state.nth && state.count > state.nth))
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t n)
{
    return denied() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return denied() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return denied() ? NULL : __libc_realloc(p, n);
}

void *memalign(size_t align, size_t n)
{
    return denied() ? NULL : __libc_memalign(align, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    return memalign(align, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
    void *at = memalign(align, n);
    if (!at)
        return ENOMEM;
    *p = at;
    return 0;
}

int starve_available(void)
{
    return 1;
}

void starve_begin(long nth, int rest)
{
    state.count = 0;
    state.nth = nth;
    state.rest = rest;
    state.counting = 1;
}

long starve_end(void)
{
    state.counting = 0;
    return state.count;
}

#else

int starve_available(void)
{
    return 0;
}

void starve_begin(long nth, int rest)
{
    (void)nth;
    (void)rest;
}

long starve_end(void)
{
    return 0;
}

#endif
