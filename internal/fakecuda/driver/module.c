/* Modules: PTX that was compiled for the processor beforehand, and is found by its hash. */

#include "fake.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* FNV-1a, as hash/fnv has it. */
static uint64_t hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3;
	return h;
}

int cuModuleLoadData(void **module, const char *ptx)
{
	const char *version = strstr(ptx, ".version "), *dir;
	int major, minor, length;
	char path[4096];
	find_for_kernels **finds;

	ENTER();
	UNSAFE();
	if (version == NULL || sscanf(version, ".version %d.%d", &major, &minor) != 2)
		return 200; /* CUDA_ERROR_INVALID_IMAGE */
	if (major * 10 + minor > setting("isa", 84))
		return 222; /* CUDA_ERROR_UNSUPPORTED_PTX_VERSION */
	dir = text("modules", &length);
	if (dir == NULL)
		return 218; /* CUDA_ERROR_INVALID_PTX */
	snprintf(path, sizeof path, "%.*s/%016llx.so", length, dir, (unsigned long long)hash(ptx));
	*module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (*module == NULL) {
		fprintf(stderr, "fakecuda: %s\n", dlerror());
		return 218;
	}
	finds = dlsym(*module, "ptx_find");
	if (finds)
		*finds = find_memory;
	pthread_mutex_lock(&lock);
	counts->modules++;
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuModuleUnload(void *module)
{
	LEAVE();
	UNSAFE();

	pthread_mutex_lock(&lock);
	wait_for_streams();
	counts->modules--;
	pthread_mutex_unlock(&lock);
	dlclose(module);
	return code;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
	char symbol[256];

	ENTER();
	snprintf(symbol, sizeof symbol, "ptx_%s", name);
	*function = dlsym(module, symbol);
	return *function ? 0 : 500; /* CUDA_ERROR_NOT_FOUND */
}
