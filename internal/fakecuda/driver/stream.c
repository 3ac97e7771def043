/* Streams, which are threads; events; captures. */

#include "fake.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A kernel, as internal/ptx compiles it. */
typedef int kernel(const unsigned grid[3], const unsigned block[3], size_t shared, const void *params, size_t size);

/* Events and streams are never freed, since work that was given to a stream may still use them. */
struct event {
	long recorded, passed;
	int closed, captured;
	int asked;             /* since it was recorded */
	struct stream *stream; /* where it was recorded, and behind how many jobs */
	long at;
};

struct job {
	struct job *next;
	const char *kind;
	void *to;
	const void *from;
	int owned; /* from is a copy that belongs to the job */
	int watched; /* from must have this sum until it is copied */
	uint64_t sum;
	int value;
	size_t bytes;
	kernel *kernel;
	unsigned grid[3], block[3];
	uint64_t param;
	struct event *passes;
	long turn;
};

struct stream {
	struct stream *next;
	struct job *first, **last;
	int closed;
	uint64_t random;
	long given, waited; /* jobs, and how many of them the host has waited for */
	unsigned flags;
	void *context;
	enum { NOT_CAPTURED, CAPTURED, BROKEN } capture;
	int mode; /* of the capture, and the thread that began it */
	pthread_t by;
};
static struct stream *streams;

/* What a capture forbids: anything unsafe to all threads, to its own thread, or nothing. A thread may opt out of what others forbid. */
enum { GLOBAL, THREAD_LOCAL, RELAXED };
static __thread int capture_mode;

/* Ends a capture because of an error, which it returns; if the capture has ended before, it returns
 * that instead. */
static int breaks(struct stream *s, int error)
{
	const int code = s->capture == BROKEN ? CAPTURE_BROKEN : error;

	s->capture = BROKEN;
	return code;
}

int breaks_captures(void)
{
	int code = 0;

	pthread_mutex_lock(&lock);
	for (struct stream *s = streams; s; s = s->next) {
		const int ours = pthread_equal(s->by, pthread_self());

		if (s->capture != NOT_CAPTURED && capture_mode != RELAXED &&
		    (ours ? s->mode != RELAXED : capture_mode == GLOBAL && s->mode == GLOBAL))
			code = breaks(s, CAPTURE_UNSUPPORTED);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

/* Ends the captures of all streams of the context, or only of those that the default stream waits
 * for. With the lock held. */
static int breaks_context(int blocking, int error)
{
	int code = 0;

	for (struct stream *s = streams; s; s = s->next) {
		if (s->capture != NOT_CAPTURED && s->context == current_context() && !(blocking && s->flags & 1))
			code = breaks(s, error);
	}
	return code;
}

/* If a kernel touches memory that does not exist, the device ends, not the process. */
static __thread sigjmp_buf *out_of_kernel;
static struct sigaction others;

static void fault(int signal, siginfo_t *info, void *context)
{
	if (out_of_kernel)
		siglongjmp(*out_of_kernel, 1);
	others.sa_sigaction(signal, info, context);
}

static void catch_faults(void)
{
	struct sigaction ours = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

	sigaction(SIGSEGV, &ours, &others);
}

static void run_kernel(struct job *j)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	sigjmp_buf here;
	volatile int code = 2;

	pthread_once(&once, catch_faults);
	out_of_kernel = &here;
	if (sigsetjmp(here, 1) == 0)
		code = j->kernel(j->grid, j->block, j->bytes, &j->param, sizeof j->param);
	out_of_kernel = NULL;
	if (code != 0) {
		fprintf(stderr, "fakecuda: a kernel ended with %d\n", code);
		lose(code == 2 ? 700 : 719);
	}
}

static uint64_t sum_of(const unsigned char *p, size_t n)
{
	uint64_t sum = 14695981039346656037u;

	while (n--)
		sum = (sum ^ *p++) * 1099511628211u;
	return sum;
}

/* A lost device does nothing any more. */
static void run(struct job *j)
{
	if (j->passes || work(j->kind) != 0)
		return;
	if (j->watched && sum_of(j->from, j->bytes) != j->sum)
		__atomic_add_fetch(&counts->torn, 1, __ATOMIC_RELAXED);
	if (j->kernel)
		run_kernel(j);
	else if (j->from)
		memmove(j->to, j->from, j->bytes);
	else
		memset(j->to, j->value, j->bytes);
}

/* Each job is late by a random time below delay, in microseconds. */
static void be_late(struct stream *s)
{
	long delay = setting("delay", 0);

	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	if (delay > 0)
		usleep(s->random % delay);
}

static void *serve(void *of)
{
	struct stream *s = of;
	struct job *j;

	pthread_mutex_lock(&lock);
	for (;;) {
		while ((j = s->first) == NULL && !s->closed)
			pthread_cond_wait(&changed, &lock);
		if (j == NULL)
			break;
		pthread_mutex_unlock(&lock);
		be_late(s);
		run(j);
		pthread_mutex_lock(&lock);
		if (j->passes)
			j->passes->passed = j->turn;
		if ((s->first = j->next) == NULL)
			s->last = &s->first;
		if (j->owned)
			free((void *)j->from);
		free(j);
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* With the lock held. */
static void wait_for(struct stream *s)
{
	const long given = s->given;

	while (s->first)
		pthread_cond_wait(&changed, &lock);
	s->waited = given;
}

void wait_for_streams(void)
{
	for (struct stream *s = streams; s; s = s->next)
		wait_for(s);
}

static int usable(struct stream *s) { return s && !s->closed ? 0 : BAD_HANDLE; }

/* CU_STREAM_LEGACY and CU_STREAM_PER_THREAD also stand for the default stream. */
static struct stream *named(struct stream *s) { return (uintptr_t)s > 2 ? s : NULL; }

/* Gives a stream a job, with the lock held. The default stream does its jobs at once: it does not
 * wait for the streams that batchfs makes. A job for a stream that is being captured becomes part
 * of a graph, and is not done. */
static int give(struct stream *s, struct job job)
{
	struct job *j;
	int code = s ? 0 : breaks_context(1, CAPTURE_IMPLICIT);

	if (s && s->capture == BROKEN)
		code = CAPTURE_BROKEN;
	if (code || (s && s->capture != NOT_CAPTURED)) {
		if (job.owned)
			free((void *)job.from);
		return code;
	}
	if (s == NULL) {
		pthread_mutex_unlock(&lock);
		run(&job);
		pthread_mutex_lock(&lock);
		if (job.passes)
			job.passes->passed = job.turn;
		return 0;
	}
	j = malloc(sizeof *j);
	*j = job;
	*s->last = j;
	s->last = &j->next;
	s->given++;
	pthread_cond_broadcast(&changed);
	return 0;
}

int cuStreamCreate(struct stream **stream, unsigned flags)
{
	struct stream *s;
	pthread_t thread;

	ENTER();
	s = calloc(1, sizeof *s);
	s->last = &s->first;
	s->flags = flags;
	s->context = current_context();
	pthread_mutex_lock(&lock);
	s->random = setting("seed", 1) * 0x9E3779B97F4A7C15 + ++counts->streams;
	s->next = streams;
	streams = s;
	pthread_mutex_unlock(&lock);
	if (pthread_create(&thread, NULL, serve, s) != 0)
		abort();
	pthread_detach(thread);
	*stream = s;
	return 0;
}

int cuStreamDestroy_v2(struct stream *s)
{
	LEAVE();

	pthread_mutex_lock(&lock);
	if (usable(s) != 0) {
		code = BAD_HANDLE;
	} else {
		s->closed = 1;
		counts->streams--;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

/* The error of waiting for a stream that is captured, or whose work would wait for one that is. With the lock held. */
static int not_waited_for(struct stream *s)
{
	if (s == NULL)
		return breaks_context(1, CAPTURE_IMPLICIT);
	return s->capture ? breaks(s, CAPTURE_UNSUPPORTED) : 0;
}

int cuStreamSynchronize(struct stream *s)
{
	int code;

	ENTER();
	UNSAFE();
	pthread_mutex_lock(&lock);
	code = not_waited_for(s);
	if (code == 0 && s)
		wait_for(s);
	code = code ? code : lost;
	pthread_mutex_unlock(&lock);
	return code;
}

int cuCtxSynchronize(void)
{
	int code;

	ENTER();
	UNSAFE();
	pthread_mutex_lock(&lock);
	code = breaks_context(0, CAPTURE_UNSUPPORTED);
	if (code == 0)
		wait_for_streams();
	code = code ? code : lost;
	pthread_mutex_unlock(&lock);
	return code;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int code = enter(__func__), before = capture_mode;

	if (code == 0) {
		capture_mode = *mode;
		*mode = before;
	}
	return code;
}

int cuStreamBeginCapture_v2(struct stream *s, int mode)
{
	int code = 0;

	ENTER();
	if (s == NULL)
		return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	if (s->closed || s->capture != NOT_CAPTURED) {
		code = s->closed ? BAD_HANDLE : ILLEGAL_STATE;
	} else {
		s->capture = CAPTURED;
		s->mode = mode;
		s->by = pthread_self();
	}
	pthread_mutex_unlock(&lock);
	return code;
}

/* Graphs are not supported: what was captured is never done. */
int cuStreamEndCapture(struct stream *s, void **graph)
{
	int code = ILLEGAL_STATE;

	ENTER();
	*graph = NULL;
	pthread_mutex_lock(&lock);
	if (s && s->capture != NOT_CAPTURED) {
		if (s->mode != RELAXED && !pthread_equal(s->by, pthread_self())) {
			code = CAPTURE_OF_OTHERS;
		} else {
			code = s->capture == BROKEN ? CAPTURE_BROKEN : 0;
			*graph = code ? NULL : s;
			s->capture = NOT_CAPTURED;
		}
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int cuStreamIsCapturing(struct stream *s, int *status)
{
	int code = 0;

	ENTER();
	s = named(s);
	pthread_mutex_lock(&lock);
	for (struct stream *o = streams; o && s == NULL; o = o->next) {
		if (o->capture != NOT_CAPTURED && !(o->flags & 1))
			code = CAPTURE_IMPLICIT;
	}
	*status = s ? s->capture : NOT_CAPTURED;
	pthread_mutex_unlock(&lock);
	return code;
}

int cuEventCreate(struct event **event, unsigned flags)
{
	ENTER();
	(void)flags;
	*event = calloc(1, sizeof **event);
	pthread_mutex_lock(&lock);
	counts->events++;
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuEventDestroy_v2(struct event *e)
{
	LEAVE();

	pthread_mutex_lock(&lock);
	if (e == NULL || e->closed) {
		code = BAD_HANDLE;
	} else {
		e->closed = 1;
		counts->events--;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int cuEventRecord(struct event *e, struct stream *s)
{
	int code;

	ENTER();
	s = named(s);
	if (e->closed || (s && s->closed))
		return BAD_HANDLE;
	pthread_mutex_lock(&lock);
	e->asked = 0;
	e->captured = s && s->capture == CAPTURED;
	e->stream = s;
	code = give(s, (struct job){.passes = e, .turn = e->recorded + 1});
	if (code == 0 && !e->captured) {
		e->recorded++;
		e->at = s ? s->given : 0;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

/* The error if an event belongs to a capture, which cannot be asked for. With the lock held. */
static int usable_event(struct event *e)
{
	if (e->captured && e->stream->capture != NOT_CAPTURED)
		breaks(e->stream, CAPTURED_EVENT);
	return e->closed ? BAD_HANDLE : e->captured ? CAPTURED_EVENT : 0;
}

/* The first answer is that the event has not passed, unless the host has waited for it. */
int cuEventQuery(struct event *e)
{
	int code, known;

	ENTER();
	UNSAFE();
	pthread_mutex_lock(&lock);
	code = usable_event(e);
	known = e->recorded == 0 || (e->stream && e->stream->waited >= e->at);
	if (code == 0 && !known && (e->passed < e->recorded || !e->asked++))
		code = NOT_READY;
	code = code ? code : lost;
	pthread_mutex_unlock(&lock);
	return code;
}

/* Copies between a device address and the host, or two device addresses. */
static int copy(struct stream *s, uint64_t to, uint64_t from, size_t bytes, int to_host, int from_host)
{
	struct job j = {.kind = "copy", .to = (void *)to, .from = (void *)from, .bytes = bytes};
	int code = 0;

	pthread_mutex_lock(&lock);
	if ((!to_host && !on_device(to, bytes)) || (!from_host && !on_device(from, bytes)) || (s && s->closed)) {
		code = INVALID;
	} else if (from_host && s && !registered(j.from, bytes)) {
		j.from = memcpy(malloc(bytes), j.from, bytes);
		j.owned = 1;
		code = give(s, j);
	} else {
		if (from_host && s) {
			j.watched = 1;
			j.sum = sum_of(j.from, bytes);
		}
		code = give(s, j);
		if (code == 0 && to_host && s && !registered(j.to, bytes))
			wait_for(s);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct stream *s)
{
	ENTER();
	return copy(s, to, (uint64_t)from, bytes, 0, 1);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct stream *s)
{
	ENTER();
	return copy(s, (uint64_t)to, from, bytes, 1, 0);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct stream *s)
{
	ENTER();
	return copy(s, to, from, bytes, 0, 0);
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, struct stream *s)
{
	int code = INVALID;

	ENTER();
	pthread_mutex_lock(&lock);
	if (on_device(to, bytes) && !(s && s->closed)) {
		code = give(s, (struct job){.kind = "set", .to = (void *)to, .value = value, .bytes = bytes});
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int cuLaunchKernel(kernel *k, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared,
		   struct stream *s, void **params, void **extra)
{
	struct job j = {.kind = "kernel", .kernel = k, .grid = {x, y, z}, .block = {threads_x, threads_y, threads_z}, .bytes = shared};
	int code;

	ENTER();
	if (extra || usable(s) != 0 || x < 1 || x > INT32_MAX || y < 1 || y > 65535 || z < 1 || z > 65535 ||
	    (uint64_t)threads_x * threads_y * threads_z - 1 >= 1024 || shared > 48 << 10)
		return INVALID;
	memcpy(&j.param, params[0], sizeof j.param);
	pthread_mutex_lock(&lock);
	code = give(s, j);
	pthread_mutex_unlock(&lock);
	return code;
}
