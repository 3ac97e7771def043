//go:build cuda && linux && (amd64 || arm64)

#define NAMES "cudanames.h"
#define OPEN batchfs_open_cuda
#define MISSING 36 /* no number of the driver's; CUDA's runtime calls it cudaErrorCallRequiresNewerDriver */
#include "jump.h"

/* cu calls it before main, and ends the process if it fails. */
HIDDEN int cuInit(unsigned flags)
{
	(void)flags;
	return 0;
}

/* The library's own cuInit. */
HIDDEN int batchfs_init_cuda(void)
{
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");

	return init == NULL ? MISSING : init(0);
}
