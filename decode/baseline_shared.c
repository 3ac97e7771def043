//go:build cgo

#include "bfs_baseline.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Most files have the same few tables, so all decoders of the process share them. A table lives
 * while a decoder holds it: each holds at most BFS_TABLES, however many a dataset has. The lock
 * guards the lists of tables, and holders and next in each; the rest of a table in a list never
 * changes. The lock is taken only for a table that a decoder does not hold, and never while a table
 * is made. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bfs_table *lists[64]; /* by hash of the code */

static bfs_table **list_of(const uint8_t *code, size_t size)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ code[i]) * 16777619u;
    return &lists[hash % 64];
}

/* is compares definitions. The counts come first, so equal ones have the same size. */
static int is(const bfs_table *t, const uint8_t *code, size_t size, int ac)
{
    return t->ac == ac && memcmp(t->code, code, size) == 0;
}

/* share holds the table in a list that is like another one. If there is none, it puts the other one
 * into the list, if that is complete. */
static bfs_table *share(const uint8_t *code, size_t size, int ac, bfs_table *made)
{
    bfs_table **list = list_of(code, size);
    pthread_mutex_lock(&lock);
    bfs_table *t = *list;
    while (t && !is(t, code, size, ac))
        t = t->next;
    if (!t && made) {
        made->list = list;
        made->next = *list;
        t = *list = made;
    }
    if (t)
        t->holders++;
    pthread_mutex_unlock(&lock);
    return t;
}

static void release(bfs_table *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&lock);
    const int last = --t->holders == 0;
    if (last) {
        bfs_table **at = t->list;
        while (*at != t)
            at = &(*at)->next;
        *at = t->next;
    }
    pthread_mutex_unlock(&lock);
    if (last)
        free(t);
}

/* hold sets *to to the table with this code, which the caller must release. */
static int hold(bfs_table **to, const uint8_t *code, size_t size, int ac)
{
    if ((*to = share(code, size, ac, NULL)))
        return BFS_OK;
    bfs_table *made = calloc(1, sizeof *made);
    if (!made)
        return BFS_MEMORY;
    memcpy(made->code, code, size);
    made->ac = ac;
    if (!bfs_table_make(made)) {
        free(made);
        return BFS_LEFT_HEADER;
    }
    if ((*to = share(code, size, ac, made)) != made)
        free(made); /* another decoder was faster */
    return BFS_OK;
}

/* bfs_tables_find puts the table for a DHT segment's counts and symbols first among those held,
 * replacing the least recently used one. It returns BFS_MEMORY, or BFS_LEFT_HEADER if libjpeg
 * refuses the table. */
int bfs_tables_find(bfs_table *held[BFS_TABLES], const uint8_t *code, int ac)
{
    size_t size = 16;
    for (int i = 0; i < 16; i++)
        size += code[i];
    int at = 0;
    while (at < BFS_TABLES - 1 && held[at] && !is(held[at], code, size, ac))
        at++;
    if (!held[at] || !is(held[at], code, size, ac)) {
        release(held[at]);
        held[at] = NULL;
        const int result = hold(&held[at], code, size, ac);
        if (result != BFS_OK)
            return result;
    }
    bfs_table *t = held[at];
    memmove(held + 1, held, at * sizeof *held);
    held[0] = t;
    return BFS_OK;
}

void bfs_tables_free(bfs_table *held[BFS_TABLES])
{
    for (int i = 0; i < BFS_TABLES; i++) {
        release(held[i]);
        held[i] = NULL;
    }
}
