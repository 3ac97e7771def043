//go:build linux && (amd64 || arm64)

#define NAMES "nvmlnames.h"
#define OPEN batchfs_open_nvml
#define MISSING 13 /* NVML_ERROR_FUNCTION_NOT_FOUND */
#include "jump.h"
