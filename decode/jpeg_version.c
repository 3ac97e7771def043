//go:build cgo

/* libjpeg has no call that returns the version of the loaded library; its headers give the one
 * compiled against. libjpeg-turbo contains it as text, "libjpeg-turbo version 2.1.5 (build
 * 20230203)", so we search the object that its functions were loaded from. */
#define _GNU_SOURCE
#include "bfs_jpeg.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)

static const char mark[] = "libjpeg-turbo version ";

typedef struct {
    uintptr_t symbol; /* a function of the library */
    char *text;
    size_t size;
} search;

/* in_segment copies the version after the mark, up to a space, from n bytes at p. */
static int in_segment(const char *p, size_t n, const search *s)
{
    const char *end = p + n;
    while ((p = memmem(p, end - p, mark, sizeof mark - 1))) {
        p += sizeof mark - 1;
        size_t k = 0;
        while (p + k < end && k + 1 < s->size && (('0' <= p[k] && p[k] <= '9') || p[k] == '.'))
            k++;
        if (k) { /* else this is our own search string */
            memcpy(s->text, p, k);
            s->text[k] = 0;
            return 1;
        }
    }
    return 0;
}

static int has(const struct dl_phdr_info *o, uintptr_t symbol)
{
    for (int i = 0; i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &o->dlpi_phdr[i];
        if (h->p_type == PT_LOAD && symbol - (o->dlpi_addr + h->p_vaddr) < h->p_memsz)
            return 1;
    }
    return 0;
}

/* in_object is called for each loaded object, and returns 1 at the library's. The program
 * itself, which has no name, was linked with the library of its headers. */
static int in_object(struct dl_phdr_info *o, size_t size, void *arg)
{
    search *s = arg;
    (void)size;
    if (!has(o, s->symbol))
        return 0;
    if (!o->dlpi_name || !o->dlpi_name[0])
        return 1;
    for (int i = 0; i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &o->dlpi_phdr[i];
        if (h->p_type == PT_LOAD && (h->p_flags & PF_R) &&
            in_segment((const char *)(o->dlpi_addr + h->p_vaddr), h->p_filesz, s))
            return 1;
    }
    /* No text found: use the file's name, whose numbers at least identify the interface. */
    char *file = realpath(o->dlpi_name, NULL);
    const char *base = file ? strrchr(file, '/') : NULL;
    snprintf(s->text, s->size, "of %s", base ? base + 1 : o->dlpi_name);
    free(file);
    return 1;
}

void bfs_jpeg_version(char *text, size_t size)
{
    search s = {(uintptr_t)jpeg_std_error, text, size};
    snprintf(text, size, "%s", TEXT_OF(LIBJPEG_TURBO_VERSION));
    dl_iterate_phdr(in_object, &s);
}
