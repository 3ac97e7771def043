//go:build cuda && linux && (amd64 || arm64)

#define NAMES "nvjpegnames.h"
#define OPEN batchfs_open_nvjpeg
#define MISSING 36 /* no number of nvJPEG's */
#include "jump.h"
