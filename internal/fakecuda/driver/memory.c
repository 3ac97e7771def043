/* Device memory, registered host memory, and memory of other processes. */

#include "fake.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What another process opens to share an allocation: its file. */
struct handle {
	int64_t id, bytes;
	int32_t pid, fd;
	char rest[40];
};

/* An allocation, or one of another process that was opened. Its file is what makes it visible there. */
struct memory {
	struct memory *next;
	uint64_t address;
	size_t bytes;
	int fd, opened; /* how often, of another process; 0: our own */
	struct handle handle;
};
static struct memory *memories;

struct range {
	struct range *next;
	char *start;
	size_t bytes;
};
static struct range *ranges;

enum { POISON = 219, PAGE = 4096 };

static size_t whole_pages(size_t n) { return (n + PAGE - 1) / PAGE * PAGE; }

/* Maps memory between pages that nobody may touch, so that a kernel that leaves the memory ends the
 * process. */
static void *map_guarded(int fd, size_t bytes)
{
	char *p = mmap(NULL, whole_pages(bytes) + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mmap(p + PAGE, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		abort();
	return p + PAGE;
}

static struct memory *add(int fd, size_t bytes)
{
	struct memory *m = calloc(1, sizeof *m);

	m->address = (uint64_t)map_guarded(fd, bytes);
	m->bytes = bytes;
	m->fd = fd;
	m->next = memories;
	memories = m;
	return m;
}

static void discard(struct memory **at)
{
	struct memory *m = *at;

	*at = m->next;
	munmap((char *)m->address - PAGE, whole_pages(m->bytes) + 2 * PAGE);
	close(m->fd);
	free(m);
}

/* The link to the memory that contains an address, so that it can be discarded. */
static struct memory **find(uint64_t address)
{
	struct memory **at = &memories;

	while (*at && (address < (*at)->address || address >= (*at)->address + (*at)->bytes))
		at = &(*at)->next;
	return at;
}

int on_device(uint64_t address, size_t bytes)
{
	struct memory *m = *find(address);

	return m && address + bytes <= m->address + m->bytes;
}

int find_memory(uint64_t address, uint64_t *start, uint64_t *bytes)
{
	struct memory *m;

	pthread_mutex_lock(&lock);
	m = *find(address);
	if (m) {
		*start = m->address;
		*bytes = m->bytes;
	}
	pthread_mutex_unlock(&lock);
	return m != NULL;
}

/* How many bytes of the device's memory this process, or all living processes together, have not
 * used. With the lock held. */
size_t unused_bytes(void)
{
	int64_t left = setting("memory", 1 << 28);
	char path[4096];
	struct dirent *e;
	int length;
	const char *s = text("state", &length);
	DIR *all;

	if (!setting("shared", 0))
		return left - counts->bytes - counts->own;
	snprintf(path, sizeof path, "%.*s", length, s);
	for (all = opendir(path); all && (e = readdir(all)) != NULL;) {
		struct counts c;
		int fd = openat(dirfd(all), e->d_name, O_RDONLY | O_CLOEXEC);

		if (read(fd, &c, sizeof c) == sizeof c && kill(atoi(e->d_name), 0) == 0)
			left -= c.bytes + c.own;
		close(fd);
	}
	if (all)
		closedir(all);
	return left > 0 ? left : 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
	static int64_t id;
	struct memory *m;
	int code = 0;

	ENTER();
	UNSAFE();
	pthread_mutex_lock(&lock);
	if (bytes == 0) {
		code = INVALID;
	} else if (bytes > unused_bytes()) {
		code = NO_MEMORY;
	} else {
		int fd = memfd_create("fake device memory", MFD_CLOEXEC);

		if (fd < 0 || ftruncate(fd, bytes) != 0)
			abort();
		m = add(fd, bytes);
		memset((void *)m->address, POISON, bytes);
		m->handle = (struct handle){.id = ++id, .bytes = bytes, .pid = getpid(), .fd = fd};
		counts->allocations++;
		counts->bytes += bytes;
		*address = m->address;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int cuMemFree_v2(uint64_t address)
{
	struct memory **at;
	LEAVE();
	UNSAFE();

	pthread_mutex_lock(&lock);
	wait_for_streams();
	at = find(address);
	if (*at == NULL || (*at)->address != address || (*at)->opened) {
		code = INVALID;
	} else {
		counts->allocations--;
		counts->bytes -= (*at)->bytes;
		discard(at);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int cuMemGetInfo_v2(size_t *unused, size_t *total)
{
	ENTER();
	*total = setting("memory", 1 << 28);
	pthread_mutex_lock(&lock);
	*unused = unused_bytes();
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuMemGetAddressRange_v2(uint64_t *start, size_t *bytes, uint64_t address)
{
	struct memory *m;

	ENTER();
	pthread_mutex_lock(&lock);
	m = *find(address);
	if (m) {
		*start = m->address;
		*bytes = m->bytes;
	}
	pthread_mutex_unlock(&lock);
	return m ? 0 : INVALID;
}

int cuIpcGetMemHandle(struct handle *handle, uint64_t address)
{
	struct memory *m;

	ENTER();
	if (setting("mig", 0))
		return NOT_SUPPORTED;
	pthread_mutex_lock(&lock);
	m = *find(address);
	if (m)
		*handle = m->handle;
	pthread_mutex_unlock(&lock);
	return m && !m->opened ? 0 : INVALID;
}

/* Opening the same handle again is counted, and gives the same address. */
int cuIpcOpenMemHandle_v2(uint64_t *address, struct handle handle, unsigned flags)
{
	char path[64];
	struct memory *m;
	int fd, code = 0;

	ENTER();
	UNSAFE();
	if (flags != 1 || handle.bytes <= 0)
		return INVALID;
	if (handle.pid == getpid())
		return NO_CONTEXT;
	pthread_mutex_lock(&lock);
	for (m = memories; m && memcmp(&m->handle, &handle, sizeof handle) != 0; m = m->next)
		;
	if (m == NULL) {
		snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.pid, handle.fd);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0) {
			code = NO_CONTEXT;
		} else {
			m = add(fd, handle.bytes);
			m->handle = handle;
		}
	}
	if (m) {
		m->opened++;
		counts->imports++;
		*address = m->address;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int cuIpcCloseMemHandle(uint64_t address)
{
	struct memory **at;
	LEAVE();
	UNSAFE();

	pthread_mutex_lock(&lock);
	at = find(address);
	if (*at == NULL || !(*at)->opened) {
		code = INVALID;
	} else {
		counts->imports--;
		if (--(*at)->opened == 0)
			discard(at);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

/* Whether the driver could pin the pages, for writing. */
static int can_pin(char *start, size_t bytes)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to, at = (unsigned long)start;
	char line[4200], readable, writable;

	while (maps && fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%lx-%lx %c%c", &from, &to, &readable, &writable) == 4 && from <= at && at < to &&
		    readable == 'r' && writable == 'w')
			at = to;
	}
	if (maps)
		fclose(maps);
	return at >= (unsigned long)start + bytes;
}

static struct range **overlapping(const char *start, size_t bytes)
{
	struct range **at = &ranges;

	while (*at && (start >= (*at)->start + (*at)->bytes || start + bytes <= (*at)->start))
		at = &(*at)->next;
	return at;
}

int registered(const void *host, size_t bytes)
{
	const char *p = host;
	struct range *r = *overlapping(p, bytes);

	return r && p >= r->start && p + bytes <= r->start + r->bytes;
}

static void add_range(void *start, size_t bytes)
{
	struct range *r = calloc(1, sizeof *r);

	*r = (struct range){ranges, start, bytes};
	ranges = r;
	counts->registrations++;
}

int cuMemHostRegister_v2(void *start, size_t bytes, unsigned flags)
{
	int code = 0;

	ENTER();
	UNSAFE();
	(void)flags;
	pthread_mutex_lock(&lock);
	if (bytes == 0 || !can_pin(start, bytes)) {
		code = INVALID;
	} else if (*overlapping(start, bytes)) {
		code = 712;
	} else {
		add_range(start, bytes);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

int cuMemHostAlloc(void **start, size_t bytes, unsigned flags)
{
	void *p;

	ENTER();
	UNSAFE();
	(void)flags;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return bytes == 0 ? INVALID : NO_MEMORY;
	pthread_mutex_lock(&lock);
	add_range(p, bytes);
	pthread_mutex_unlock(&lock);
	*start = p;
	return 0;
}

/* Ends the registration of the memory that begins at start. It returns how many bytes that had, or
 * 0 if there is none. */
static size_t forget_range(void *start)
{
	struct range **at, *r;
	size_t bytes = 0;

	pthread_mutex_lock(&lock);
	at = overlapping(start, 1);
	r = *at;
	if (r && r->start == start) {
		bytes = r->bytes;
		*at = r->next;
		free(r);
		counts->registrations--;
	}
	pthread_mutex_unlock(&lock);
	return bytes;
}

int cuMemHostUnregister(void *start)
{
	LEAVE();
	UNSAFE();
	return forget_range(start) ? code : 713;
}

int cuMemFreeHost(void *start)
{
	size_t bytes;
	LEAVE();
	UNSAFE();

	bytes = forget_range(start);
	if (bytes == 0)
		return INVALID;
	munmap(start, bytes);
	return code;
}
