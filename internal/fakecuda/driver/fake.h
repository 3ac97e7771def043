/* Shared by the parts of the driver that lives in host memory. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { INVALID = 1, NO_MEMORY = 2, NOT_INITIALIZED = 3, NO_CONTEXT = 201, BAD_HANDLE = 400, ILLEGAL_STATE = 401, NOT_READY = 600,
       NOT_SUPPORTED = 801 };
/* The errors that end a capture of a stream, or that come from using one. */
enum { CAPTURE_UNSUPPORTED = 900, CAPTURE_BROKEN = 901, CAPTURE_IMPLICIT = 906, CAPTURED_EVENT = 907,
       CAPTURE_OF_OTHERS = 908 };

/* Guards everything. A stream's work runs without it. */
extern pthread_mutex_t lock;
extern pthread_cond_t changed;

/* Which objects are alive, and how many calls there were. Tests see it, because it is mapped from a
 * file. Alive in fakecuda.go has the same order. */
struct counts {
	int64_t calls, contexts, allocations, bytes, registrations, imports, streams, events, modules, torn;
	int64_t own;    /* bytes of device memory that contexts take for themselves */
	int64_t opened; /* devices that cuInit has found */
};
extern struct counts *counts;
extern int lost; /* the error that ended the device */

long setting(const char *key, long otherwise); /* a number in FAKE_CUDA */
const char *text(const char *key, int *length); /* a word of it; NULL if it is not there */

/* enter counts a call. It returns the error that the call must return at once, if any: an injected
 * one, or the one that ended the device. */
int enter(const char *function);
/* work does the same for a job of a stream: "copy", "set" or "kernel". Its error ends the
 * device. */
int work(const char *kind);
void lose(int error);
int context(void); /* the error if no context is current */
void *current_context(void);

/* For every call that needs a context. */
#define ENTER()                                                                                    \
	do {                                                                                       \
		int entered = enter(__func__);                                                     \
		if (entered || (entered = context()))                                              \
			return entered;                                                            \
	} while (0)

/* For calls that release something: they do so even if they fail, but not without a context. */
#define LEAVE()                                                                                    \
	int code = enter(__func__);                                                                \
	if (context())                                                                             \
		return code ? code : NO_CONTEXT

/* For calls that may not be made while a stream is captured; comes after ENTER or LEAVE. */
#define UNSAFE()                                                                                   \
	do {                                                                                       \
		int forbidden = breaks_captures();                                                 \
		if (forbidden)                                                                     \
			return forbidden;                                                          \
	} while (0)

int breaks_captures(void);

/* With the lock held. */
int on_device(uint64_t address, size_t bytes); /* whether it lies in one allocation */
int registered(const void *host, size_t bytes);
void wait_for_streams(void);
size_t unused_bytes(void);

/* internal/ptx calls it to look up memory, without the lock. */
typedef int find_for_kernels(uint64_t at, uint64_t *start, uint64_t *bytes);
find_for_kernels find_memory;
