/* Streams, which are threads; events; modules. */

#include "fake.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What internal/ptx makes of a kernel. */
typedef int kernel(const unsigned grid[3], const unsigned block[3], size_t shared, const void *params, size_t size);

/* Events and streams are never freed, since work that was given to a stream may still use them. */
struct event {
	long recorded, passed;
	int closed;
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
	struct event *passes, *waits;
	long turn;
};

struct stream {
	struct stream *next;
	struct job *first, **last;
	int closed;
	uint64_t random;
};
static struct stream *streams;

/* A kernel that touches memory that is not there ends the device, not the process. */
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

/* A device that is lost does nothing any more. */
static void run(struct job *j)
{
	if (j->passes || j->waits || work(j->kind) != 0)
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
		while (j->waits && j->waits->passed < j->turn)
			pthread_cond_wait(&changed, &lock);
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
	while (s->first)
		pthread_cond_wait(&changed, &lock);
}

void wait_for_streams(void)
{
	for (struct stream *s = streams; s; s = s->next)
		wait_for(s);
}

static int usable(struct stream *s) { return s && !s->closed ? 0 : BAD_HANDLE; }

/* Gives a stream a job, with the lock held. The default stream's are done at once: it does not wait for the streams that batchfs makes. */
static void give(struct stream *s, struct job job)
{
	struct job *j;

	if (s == NULL) {
		pthread_mutex_unlock(&lock);
		run(&job);
		pthread_mutex_lock(&lock);
		return;
	}
	j = malloc(sizeof *j);
	*j = job;
	*s->last = j;
	s->last = &j->next;
	pthread_cond_broadcast(&changed);
}

int cuStreamCreate(struct stream **stream, unsigned flags)
{
	struct stream *s;
	pthread_t thread;

	ENTER();
	(void)flags;
	s = calloc(1, sizeof *s);
	s->last = &s->first;
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
	int code = enter(__func__);

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

int cuStreamSynchronize(struct stream *s)
{
	int code;

	ENTER();
	pthread_mutex_lock(&lock);
	if (s)
		wait_for(s);
	code = lost;
	pthread_mutex_unlock(&lock);
	return code;
}

int cuStreamQuery(struct stream *s)
{
	int busy;

	ENTER();
	pthread_mutex_lock(&lock);
	busy = s && s->first;
	pthread_mutex_unlock(&lock);
	return busy ? NOT_READY : 0;
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
	int code = enter(__func__);

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
	ENTER();
	if (e->closed || usable(s) != 0)
		return BAD_HANDLE;
	pthread_mutex_lock(&lock);
	give(s, (struct job){.passes = e, .turn = ++e->recorded});
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags)
{
	ENTER();
	(void)flags;
	if (e->closed || usable(s) != 0)
		return BAD_HANDLE;
	pthread_mutex_lock(&lock);
	give(s, (struct job){.waits = e, .turn = e->recorded});
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuEventSynchronize(struct event *e)
{
	int code;

	ENTER();
	pthread_mutex_lock(&lock);
	for (long turn = e->recorded; e->passed < turn;)
		pthread_cond_wait(&changed, &lock);
	code = lost;
	pthread_mutex_unlock(&lock);
	return code;
}

int cuEventQuery(struct event *e)
{
	int passed;

	ENTER();
	pthread_mutex_lock(&lock);
	passed = e->passed >= e->recorded;
	pthread_mutex_unlock(&lock);
	return passed ? 0 : NOT_READY;
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
		give(s, j);
	} else {
		if (from_host && s) {
			j.watched = 1;
			j.sum = sum_of(j.from, bytes);
		}
		give(s, j);
		if (to_host && s && !registered(j.to, bytes))
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

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
	ENTER();
	return copy(NULL, to, (uint64_t)from, bytes, 0, 1);
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
	ENTER();
	return copy(NULL, (uint64_t)to, from, bytes, 1, 0);
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, struct stream *s)
{
	int code = INVALID;

	ENTER();
	pthread_mutex_lock(&lock);
	if (on_device(to, bytes) && !(s && s->closed)) {
		give(s, (struct job){.kind = "set", .to = (void *)to, .value = value, .bytes = bytes});
		code = 0;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int cuLaunchKernel(kernel *k, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared,
		   struct stream *s, void **params, void **extra)
{
	struct job j = {.kind = "kernel", .kernel = k, .grid = {x, y, z}, .block = {threads_x, threads_y, threads_z}, .bytes = shared};

	ENTER();
	if (extra || usable(s) != 0 || x < 1 || x > INT32_MAX || y < 1 || y > 65535 || z < 1 || z > 65535 ||
	    (uint64_t)threads_x * threads_y * threads_z - 1 >= 1024 || shared > 48 << 10)
		return INVALID;
	memcpy(&j.param, params[0], sizeof j.param);
	pthread_mutex_lock(&lock);
	give(s, j);
	pthread_mutex_unlock(&lock);
	return 0;
}
