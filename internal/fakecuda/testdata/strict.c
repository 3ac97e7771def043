/* What the driver in host memory must refuse, as NVIDIA's does. */

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct opaque *handle;
enum { GLOBAL, THREAD_LOCAL, RELAXED };

int cuInit(unsigned), cuDevicePrimaryCtxRetain(handle *, int), cuDevicePrimaryCtxRelease_v2(int), cuCtxSetCurrent(handle);
int cuCtxSynchronize(void), cuMemGetInfo_v2(size_t *, size_t *), cuMemAlloc_v2(uint64_t *, size_t), cuMemFree_v2(uint64_t);
int cuMemHostAlloc(void **, size_t, unsigned), cuMemFreeHost(void *), cuMemsetD8Async(uint64_t, unsigned char, size_t, handle);
int cuMemcpyDtoH_v2(void *, uint64_t, size_t), cuIpcCloseMemHandle(uint64_t), cuModuleUnload(handle);
int cuStreamCreate(handle *, unsigned), cuStreamDestroy_v2(handle), cuStreamSynchronize(handle), cuStreamQuery(handle);
int cuEventCreate(handle *, unsigned), cuEventDestroy_v2(handle), cuEventRecord(handle, handle), cuEventQuery(handle), cuEventSynchronize(handle);
int cuStreamWaitEvent(handle, handle, unsigned), cuStreamBeginCapture_v2(handle, int), cuStreamEndCapture(handle, handle *);
int cuThreadExchangeStreamCaptureMode(int *), cuStreamIsCapturing(handle, int *);

static int failures;

#define EXPECT(code, call)                                                                         \
	do {                                                                                       \
		int got = call;                                                                    \
		if (got != code) {                                                                 \
			printf("line %d: %s returned %d, not %d\n", __LINE__, #call, got, code);   \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

static handle context, stream, legacy_friend, event, graph;
static uint64_t memory;
static void *host;

/* Nothing is released, or made, without a context. */
static void without_context(void)
{
	size_t n;
	uint64_t p;
	handle h;
	void *other;

	EXPECT(0, cuCtxSetCurrent(NULL));
	EXPECT(201, cuMemGetInfo_v2(&n, &n));
	EXPECT(201, cuMemAlloc_v2(&p, 1));
	EXPECT(201, cuMemFree_v2(memory));
	EXPECT(201, cuMemHostAlloc(&other, 1, 0));
	EXPECT(201, cuMemFreeHost(host));
	EXPECT(201, cuIpcCloseMemHandle(memory));
	EXPECT(201, cuModuleUnload(NULL));
	EXPECT(201, cuStreamCreate(&h, 1));
	EXPECT(201, cuStreamDestroy_v2(stream));
	EXPECT(201, cuStreamSynchronize(stream));
	EXPECT(201, cuStreamQuery(stream));
	EXPECT(201, cuEventCreate(&h, 0));
	EXPECT(201, cuEventDestroy_v2(event));
	EXPECT(201, cuEventRecord(event, stream));
	EXPECT(201, cuEventQuery(event));
	EXPECT(201, cuEventSynchronize(event));
	EXPECT(201, cuCtxSynchronize());
	EXPECT(201, cuMemsetD8Async(memory, 0, 1, stream));
	EXPECT(0, cuCtxSetCurrent(context));
}

/* Work is not done at the first query, and is once it was waited for. */
static void not_ready(void)
{
	EXPECT(0, cuEventQuery(event));
	for (int legacy = 0; legacy < 2; legacy++) {
		EXPECT(0, cuMemsetD8Async(memory, 7, 1, stream));
		EXPECT(0, cuEventRecord(event, legacy ? NULL : stream));
		EXPECT(600, cuEventQuery(event));
		EXPECT(600, cuStreamQuery(stream));
		EXPECT(0, cuEventSynchronize(event));
		EXPECT(0, cuEventQuery(event));
		EXPECT(0, cuStreamSynchronize(stream));
		EXPECT(0, cuStreamQuery(stream));
	}
	EXPECT(0, cuEventRecord(event, stream));
	EXPECT(0, cuCtxSynchronize());
	EXPECT(0, cuEventQuery(event));
	EXPECT(0, cuStreamQuery(stream));
}

/* Waits by a thread that another one's capture forbids, or that it does not. */
static void *waits(void *of)
{
	int *mode = of;

	EXPECT(0, cuCtxSetCurrent(context));
	EXPECT(0, cuThreadExchangeStreamCaptureMode(mode));
	*mode = cuEventQuery(event);
	return NULL;
}

static int elsewhere(int mode)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, waits, &mode) != 0 || pthread_join(thread, NULL) != 0)
		abort();
	return mode;
}

static void captures(void)
{
	handle other;
	unsigned char value = 0;
	uint64_t p;
	int status;

	/* What is captured is not done. */
	EXPECT(0, cuMemsetD8Async(memory, 1, 1, stream));
	EXPECT(0, cuStreamSynchronize(stream));
	EXPECT(0, cuEventCreate(&other, 0));
	EXPECT(0, cuStreamBeginCapture_v2(stream, GLOBAL));
	EXPECT(0, cuMemsetD8Async(memory, 2, 1, stream));
	EXPECT(0, cuEventRecord(other, stream));
	EXPECT(0, cuStreamIsCapturing(stream, &status));
	EXPECT(1, status);
	EXPECT(0, cuStreamEndCapture(stream, &graph));
	EXPECT(0, cuMemcpyDtoH_v2(&value, memory, 1));
	EXPECT(1, value);
	EXPECT(907, cuEventQuery(other));
	EXPECT(401, cuStreamEndCapture(stream, &graph));

	/* What is unsafe ends it, and so does a thread that did not opt out. */
	struct {
		int mode, theirs, result;
	} modes[] = {{GLOBAL, GLOBAL, 900}, {GLOBAL, THREAD_LOCAL, 0}, {GLOBAL, RELAXED, 0}, {THREAD_LOCAL, GLOBAL, 0}, {RELAXED, GLOBAL, 0}};
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
		EXPECT(0, cuStreamBeginCapture_v2(stream, modes[i].mode));
		EXPECT(modes[i].result, elsewhere(modes[i].theirs));
		EXPECT((modes[i].result ? 901 : 0), cuMemsetD8Async(memory, 2, 1, stream));
		EXPECT((modes[i].result ? 901 : 0), cuStreamEndCapture(stream, &graph));
	}
	for (int mode = GLOBAL; mode <= RELAXED; mode++) {
		EXPECT(0, cuStreamBeginCapture_v2(stream, mode));
		EXPECT((mode == RELAXED ? 0 : 900), cuMemAlloc_v2(&p, 1));
		EXPECT((mode == RELAXED ? 0 : 901), cuStreamEndCapture(stream, &graph));
		if (mode == RELAXED)
			EXPECT(0, cuMemFree_v2(p));

		/* The context cannot be waited for, whatever the mode. */
		EXPECT(0, cuStreamBeginCapture_v2(stream, mode));
		EXPECT(900, cuCtxSynchronize());
		EXPECT(901, cuStreamEndCapture(stream, &graph));

		EXPECT(0, cuStreamBeginCapture_v2(stream, mode));
		EXPECT(905, cuStreamWaitEvent(stream, event, 0));
		EXPECT(901, cuStreamEndCapture(stream, &graph));
	}
	/* The default stream waits for streams that are not non-blocking. */
	EXPECT(0, cuStreamBeginCapture_v2(legacy_friend, RELAXED));
	EXPECT(906, cuMemsetD8Async(memory, 2, 1, NULL));
	EXPECT(901, cuStreamEndCapture(legacy_friend, &graph));
	EXPECT(0, cuEventDestroy_v2(other));
}

int main(void)
{
	size_t left, total;

	EXPECT(0, cuInit(0));
	EXPECT(0, cuDevicePrimaryCtxRetain(&context, 0));
	EXPECT(0, cuDevicePrimaryCtxRetain(&context, 0));
	EXPECT(0, cuCtxSetCurrent(context));
	EXPECT(0, cuMemGetInfo_v2(&left, &total));
	EXPECT((100 << 20), (int)(total - left));
	EXPECT(0, cuMemAlloc_v2(&memory, 4096));
	EXPECT(0, cuMemHostAlloc(&host, 4096, 0));
	EXPECT(0, cuStreamCreate(&stream, 1));
	EXPECT(0, cuStreamCreate(&legacy_friend, 0));
	EXPECT(0, cuEventCreate(&event, 0));
	without_context();
	not_ready();
	captures();
	EXPECT(0, cuMemFree_v2(memory));
	EXPECT(0, cuMemFreeHost(host));
	EXPECT(0, cuStreamDestroy_v2(stream));
	EXPECT(0, cuStreamDestroy_v2(legacy_friend));
	EXPECT(0, cuEventDestroy_v2(event));
	EXPECT(0, cuDevicePrimaryCtxRelease_v2(0));
	EXPECT(0, cuMemGetInfo_v2(&left, &total)); /* the context is still there */
	EXPECT(0, cuDevicePrimaryCtxRelease_v2(0));
	EXPECT(201, cuMemGetInfo_v2(&left, &total));
	return failures != 0;
}
