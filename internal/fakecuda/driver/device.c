/* Settings, failures, devices and contexts. */

#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct counts uncounted;
struct counts *counts = &uncounted;

int lost;
static int initialized, references[16];
static int seen[16]; /* the devices that this process may use, in its order: counts->opened */
static __thread int *current; /* of references */

/* A failure to be injected: at the nth call of a function, or at all calls if nth is 0; "*" stands
 * for any function. */
static struct {
	char function[64];
	int nth, code, seen;
} failures[16];
static int failure_count;

const char *text(const char *key, int *length)
{
	const char *s = getenv("FAKE_CUDA");
	size_t n = strlen(key);

	for (; s && *s; s += strcspn(s, " "), s += *s == ' ') {
		if (strncmp(s, key, n) == 0 && s[n] == '=') {
			*length = strcspn(s + n + 1, " ");
			return s + n + 1;
		}
	}
	return NULL;
}

long setting(const char *key, long otherwise)
{
	int length;
	const char *s = text(key, &length);

	return s ? atol(s) : otherwise;
}

__attribute__((constructor)) static void start(void)
{
	int length;
	const char *s = text("fail", &length);

	for (; s && failure_count < 16; failure_count++) {
		if (sscanf(s, "%63[^:]:%d:%d", failures[failure_count].function, &failures[failure_count].nth, &failures[failure_count].code) != 3)
			abort();
		s += strcspn(s, ", ");
		if (*s++ != ',')
			s = NULL;
	}
	if ((s = text("state", &length)) != NULL) {
		char path[4096];
		int fd;

		snprintf(path, sizeof path, "%.*s/%d", length, s, getpid());
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (fd < 0 || ftruncate(fd, sizeof *counts) != 0)
			abort();
		counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (counts == MAP_FAILED)
			abort();
		close(fd);
	}
}

static int ends_device(int code)
{
	return code == 214 || code == 700 || code == 702 || (code >= 714 && code <= 719);
}

void lose(int code)
{
	pthread_mutex_lock(&lock);
	lost = code;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* A failure names a function without the suffix of its version. */
static int fails(const char *function, int any)
{
	int code = lost;

	for (int i = 0; i < failure_count; i++) {
		size_t n = strlen(failures[i].function);
		int same = strncmp(function, failures[i].function, n) == 0 && (function[n] == 0 || strncmp(function + n, "_v", 2) == 0);

		if (!same && !(any && strcmp(failures[i].function, "*") == 0))
			continue;
		failures[i].seen++;
		if (code == 0 && (failures[i].nth == 0 || failures[i].seen == failures[i].nth))
			code = failures[i].code;
	}
	if (ends_device(code))
		lost = code;
	return code;
}

int enter(const char *function)
{
	int code;

	pthread_mutex_lock(&lock);
	counts->calls++;
	code = fails(function, 1);
	if (code == 0 && !initialized && strcmp(function, "cuInit") != 0 && strcmp(function, "cuDriverGetVersion") != 0)
		code = NOT_INITIALIZED;
	pthread_mutex_unlock(&lock);
	return code;
}

int work(const char *kind)
{
	int code;

	pthread_mutex_lock(&lock);
	code = fails(kind, 0);
	if (code != 0)
		lost = code;
	pthread_mutex_unlock(&lock);
	return code;
}

int context(void) { return current == NULL || *current == 0 ? NO_CONTEXT : 0; }
void *current_context(void) { return current; }

static void see(int device)
{
	if (device >= 0 && device < setting("devices", 1) && counts->opened < 16)
		seen[counts->opened++] = device;
}

int cuInit(unsigned flags)
{
	int code = enter(__func__);
	const char *s = getenv("CUDA_VISIBLE_DEVICES");

	if (code == 0 && !initialized) {
		for (int i = 0; s == NULL && i < setting("devices", 1); i++)
			see(i);
		for (; s && *s >= '0' && *s <= '9'; s += strcspn(s, ","), s += *s == ',')
			see(atoi(s));
		if (counts->opened == 0)
			code = 100;
	}
	initialized = code == 0;
	return flags ? INVALID : code;
}

int cuDriverGetVersion(int *version)
{
	*version = setting("version", 12040);
	return enter(__func__);
}

int cuDeviceGetCount(int *n)
{
	*n = counts->opened;
	return enter(__func__);
}

static int visible(int device) { return device >= 0 && device < counts->opened ? 0 : 101; }

int cuDeviceGet(int *device, int ordinal)
{
	int code = enter(__func__);

	*device = ordinal;
	return code ? code : visible(ordinal);
}

int cuDeviceGetName(char *name, int n, int device)
{
	int code = enter(__func__);

	snprintf(name, n, "Fake GPU %d", seen[device & 15]);
	return code ? code : visible(device);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	int code = enter(__func__);

	*bytes = setting("memory", 1 << 28);
	return code ? code : visible(device);
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	int code = enter(__func__);

	*value = attribute == 75 ? 9 : 0;
	return code ? code : visible(device);
}

static int uuid(unsigned char *id, int first, int device, int code)
{
	for (int i = 0; i < 15; i++)
		id[i] = first + i;
	id[15] = seen[device & 15];
	return code ? code : visible(device);
}

int cuDeviceGetUuid(unsigned char *id, int device) { return uuid(id, 0xe0, device, enter(__func__)); }
int cuDeviceGetUuid_v2(unsigned char *id, int device) { return uuid(id, setting("mig", 0) ? 0xc0 : 0xe0, device, enter(__func__)); }

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags)
{
	int code = enter(__func__);

	(void)flags;
	return code ? code : visible(device);
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	int code = enter(__func__);

	if (code || (code = visible(device)))
		return code;
	pthread_mutex_lock(&lock);
	if (references[device] == 0) {
		const size_t takes = setting("context", 0);

		if (takes > unused_bytes())
			code = NO_MEMORY;
		else
			counts->own += takes;
	}
	if (code == 0) {
		references[device]++;
		counts->contexts++;
		*context = &references[device];
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	int code = enter(__func__);

	pthread_mutex_lock(&lock);
	if (visible(device) || references[device] == 0) {
		code = NO_CONTEXT;
	} else {
		counts->contexts--;
		if (--references[device] == 0)
			counts->own -= setting("context", 0);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int cuCtxSetCurrent(void *context)
{
	int code = enter(__func__);

	if (code == 0)
		current = context;
	return code;
}

int cuCtxGetCurrent(void **context)
{
	*context = current;
	return enter(__func__);
}

int cuGetErrorName(int code, const char **name)
{
	static const struct {
		int code;
		const char *name;
	} names[] = {
		{1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {100, "CUDA_ERROR_NO_DEVICE"},
		{201, "CUDA_ERROR_INVALID_CONTEXT"}, {214, "CUDA_ERROR_ECC_UNCORRECTABLE"}, {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
		{700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {719, "CUDA_ERROR_LAUNCH_FAILED"}, {801, "CUDA_ERROR_NOT_SUPPORTED"},
		{900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}, {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"}, {999, "CUDA_ERROR_UNKNOWN"},
	};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (names[i].code == code) {
			*name = names[i].name;
			return 0;
		}
	}
	*name = NULL;
	return INVALID;
}
