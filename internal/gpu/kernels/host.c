/* Runs batches on a processor, for tests: reads them from standard input and writes the results to
 * standard output. It is compiled in one of three ways:
 *
 *   (nothing)      the kernels' source, each block of one thread
 *   SIMT_THREADS   the same, each block of this many threads at once, for the thread sanitizer; no
 *                  thread waits at the barrier whose number is in the environment variable OMITTED
 *   PTX            what internal/ptx makes of the PTX, with the launch's threads, which may not leave the batch's
 *                  memory
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef PTX
#include "batch.h"
#else
#include "kernels.cu"
#endif

/* A batch is announced by its sizes, then come its launches and the staging buffer. */
typedef struct {
    uint64_t staging, work, slots, launches;
} sizes;

typedef struct {
    char kernel[32];
    uint32_t grid[3], threads, shared;
} launch;

#ifdef PTX
typedef int kernel(const unsigned grid[3], const unsigned block[3], size_t shared, const void *params, size_t size);
#define CODE(name) ptx_##name
kernel ptx_bfs_entropy, ptx_bfs_transform, ptx_bfs_convert, ptx_bfs_place;
#else
typedef void kernel(const bfs_batch *b);
#define CODE(name) name
#endif

static const struct {
    const char *name;
    kernel *run;
} kernels[] = {
    {"bfs_entropy", CODE(bfs_entropy)},
    {"bfs_transform", CODE(bfs_transform)},
    {"bfs_convert", CODE(bfs_convert)},
    {"bfs_place", CODE(bfs_place)},
};

static kernel *find(const char *name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return kernels[i].run;
    fprintf(stderr, "there is no kernel %s\n", name);
    exit(1);
}

#if defined(PTX)
extern int (*ptx_find)(uint64_t at, uint64_t *start, uint64_t *bytes);

/* The memory of the batch that is being made. */
static struct {
    const uint8_t *start;
    uint64_t bytes;
} memory[3];

static int find_memory(uint64_t at, uint64_t *start, uint64_t *bytes)
{
    for (int i = 0; i < 3; i++) {
        *start = (uint64_t)(uintptr_t)memory[i].start, *bytes = memory[i].bytes;
        if (at - *start < *bytes)
            return 1;
    }
    return 0;
}

static void run(kernel *k, const launch *l, const bfs_batch *b)
{
    const unsigned block[3] = {l->threads, 1, 1};
    const int result = k(l->grid, block, l->shared, &b, sizeof b);
    if (result) {
        fprintf(stderr, "%s: error %d\n", l->kernel, result);
        exit(result);
    }
}
#else
__thread simt_thread simt;

#ifdef SIMT_THREADS
#include <pthread.h>
enum { THREADS_OF_BLOCK = SIMT_THREADS };
static int omitted = -1;
void simt_sync(int which)
{
    if (which != omitted)
        pthread_barrier_wait(simt.barrier);
}
#else
enum { THREADS_OF_BLOCK = 1 };
void simt_sync(int which) { (void)which; }
#endif

enum { BEFORE = -2, AFTER = -3 }; /* a block, which no kernel has to wait for */

typedef struct {
    kernel *k;
    const launch *l;
    const bfs_batch *b;
    void *shared, *barrier;
    unsigned tid;
} task;

/* every runs all blocks as one of their threads. */
static void *every(void *argument)
{
    const task *t = argument;
    simt = (simt_thread){.tid = t->tid, .threads = THREADS_OF_BLOCK, .gy = t->l->grid[1], .gz = t->l->grid[2], .shared = t->shared, .barrier = t->barrier};
    for (simt.bz = 0; simt.bz < t->l->grid[2]; simt.bz++)
        for (simt.by = 0; simt.by < t->l->grid[1]; simt.by++)
            for (simt.bx = 0; simt.bx < t->l->grid[0]; simt.bx++) {
                if (simt.tid == 0)
                    memset(t->shared, 0xa5, t->l->shared);
                simt_sync(BEFORE);
                t->k(t->b);
                simt_sync(AFTER);
            }
    return NULL;
}

static void run(kernel *k, const launch *l, const bfs_batch *b)
{
    void *shared = malloc(l->shared);
    task t[THREADS_OF_BLOCK];
    for (unsigned i = 0; i < THREADS_OF_BLOCK; i++)
        t[i] = (task){k, l, b, shared, NULL, i};
#ifdef SIMT_THREADS
    pthread_barrier_t barrier;
    pthread_t threads[THREADS_OF_BLOCK];
    pthread_barrier_init(&barrier, NULL, THREADS_OF_BLOCK);
    for (unsigned i = 0; i < THREADS_OF_BLOCK; i++) {
        t[i].barrier = &barrier;
        pthread_create(&threads[i], NULL, every, &t[i]);
    }
    for (unsigned i = 0; i < THREADS_OF_BLOCK; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
#else
    every(t);
#endif
    free(shared);
}
#endif

static void get(void *to, size_t n)
{
    if (n && fread(to, n, 1, stdin) != 1)
        exit(2);
}

/* buffer returns memory whose contents are no zeros, of exactly n bytes. */
static uint8_t *buffer(size_t n)
{
    uint8_t *p = malloc(n ? n : 1);
    memset(p, 0xee, n);
    return p;
}

int main(void)
{
    sizes s;
#ifdef SIMT_THREADS
    omitted = getenv("OMITTED") ? atoi(getenv("OMITTED")) : omitted;
#endif
    while (fread(&s, sizeof s, 1, stdin) == 1) {
        launch *l = malloc(s.launches * sizeof *l + 1);
        get(l, s.launches * sizeof *l);
        bfs_batch *b = (bfs_batch *)buffer(s.staging);
        get(b, s.staging);
        b->staging = (uint8_t *)b;
        b->work = buffer(s.work);
        b->slots = buffer(s.slots);
#ifdef PTX
        memory[0].start = b->staging, memory[0].bytes = s.staging;
        memory[1].start = b->work, memory[1].bytes = s.work;
        memory[2].start = b->slots, memory[2].bytes = s.slots;
        ptx_find = find_memory;
#endif
        for (uint64_t i = 0; i < s.launches; i++)
            run(find(l[i].kernel), &l[i], b);
        fwrite(b->slots, 1, s.slots, stdout);
        fwrite(b->work + b->verdicts, 4, (size_t)b->jpegs, stdout);
        fflush(stdout);
        free(b->work);
        free(b->slots);
        free(b);
        free(l);
    }
    return 0;
}
