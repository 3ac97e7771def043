/* Counts the allocations made by a program's own C code and makes one of them fail.
 * TestAllocations preloads it into batchfs; glibc only.
 *
 * BATCHFS_FAIL_MALLOC names a file that the test also maps: whether to count, the number
 * of allocations, and which one fails. BATCHFS_FAIL_MALLOC_CODE says which return addresses
 * count: FROM-TO of the program's code, then FROM-TO of each range to leave out, in hex. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

struct shared {
    uint64_t armed, count, fail_at, failed;
};

enum { MAX_RANGES = 64 };
static struct shared *shared;
static struct { uintptr_t from, to; } ranges[MAX_RANGES];
static int num_ranges;

__attribute__((constructor)) static void init(void) {
    const char *path = getenv("BATCHFS_FAIL_MALLOC"), *text = getenv("BATCHFS_FAIL_MALLOC_CODE");
    if (path == NULL || text == NULL) return;
    while (num_ranges < MAX_RANGES) {
        char *end;
        ranges[num_ranges].from = strtoull(text, &end, 16);
        if (*end != '-') break;
        ranges[num_ranges].to = strtoull(end + 1, &end, 16);
        num_ranges++;
        text = end;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *m = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (m != MAP_FAILED) shared = m;
}

static int fails(void *caller) {
    if (shared == NULL || !__atomic_load_n(&shared->armed, __ATOMIC_SEQ_CST)) return 0;
    uintptr_t at = (uintptr_t)caller;
    for (int i = 0; i < num_ranges; i++)
        if ((at >= ranges[i].from && at < ranges[i].to) != (i == 0)) return 0;
    if (__atomic_add_fetch(&shared->count, 1, __ATOMIC_SEQ_CST) != __atomic_load_n(&shared->fail_at, __ATOMIC_SEQ_CST)) return 0;
    __atomic_store_n(&shared->failed, 1, __ATOMIC_SEQ_CST);
    errno = ENOMEM;
    return 1;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t n) { return fails(CALLER) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return fails(CALLER) ? NULL : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return fails(CALLER) ? NULL : __libc_realloc(p, n); }
void *memalign(size_t a, size_t n) { return fails(CALLER) ? NULL : __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { return fails(CALLER) ? NULL : __libc_memalign(a, n); }

int posix_memalign(void **p, size_t a, size_t n) {
    if (fails(CALLER)) return ENOMEM;
    *p = __libc_memalign(a, n);
    return *p == NULL ? ENOMEM : 0;
}
