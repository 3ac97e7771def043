/*
 * What batchfs uses of nvJPEG, as of CUDA 11.9 to 13, so that it compiles without CUDA's own
 * header: names, numbers and the layout of structures. A test compares all of it with that header.
 */
#ifndef BATCHFS_NVJPEG_H
#define BATCHFS_NVJPEG_H

#include <stddef.h>

typedef struct CUstream_st *cudaStream_t;
typedef struct nvjpegHandle *nvjpegHandle_t;
typedef struct nvjpegJpegState *nvjpegJpegState_t;
typedef struct nvjpegJpegStream *nvjpegJpegStream_t;
typedef struct nvjpegDecodeParams *nvjpegDecodeParams_t;

typedef enum {
	NVJPEG_STATUS_SUCCESS = 0, NVJPEG_STATUS_NOT_INITIALIZED = 1, NVJPEG_STATUS_INVALID_PARAMETER = 2, NVJPEG_STATUS_BAD_JPEG = 3,
	NVJPEG_STATUS_JPEG_NOT_SUPPORTED = 4, NVJPEG_STATUS_ALLOCATOR_FAILURE = 5, NVJPEG_STATUS_EXECUTION_FAILED = 6,
	NVJPEG_STATUS_ARCH_MISMATCH = 7, NVJPEG_STATUS_INTERNAL_ERROR = 8, NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED = 9,
	NVJPEG_STATUS_INCOMPLETE_BITSTREAM = 10,
} nvjpegStatus_t;

typedef enum {
	NVJPEG_BACKEND_DEFAULT = 0, NVJPEG_BACKEND_GPU_HYBRID = 2, NVJPEG_BACKEND_HARDWARE = 3,
} nvjpegBackend_t;

typedef enum {
	NVJPEG_OUTPUT_Y = 2, NVJPEG_OUTPUT_RGBI = 5,
} nvjpegOutputFormat_t;

typedef enum {
	MAJOR_VERSION = 0, MINOR_VERSION = 1, PATCH_LEVEL = 2,
} libraryPropertyType;

typedef struct {
	unsigned char *channel[4];
	size_t pitch[4];
} nvjpegImage_t;

typedef int (*tDevMalloc)(void **, size_t);
typedef int (*tDevFree)(void *);
typedef int (*tPinnedMalloc)(void **, size_t, unsigned);
typedef int (*tPinnedFree)(void *);

typedef struct {
	tDevMalloc dev_malloc;
	tDevFree dev_free;
} nvjpegDevAllocator_t;

typedef struct {
	tPinnedMalloc pinned_malloc;
	tPinnedFree pinned_free;
} nvjpegPinnedAllocator_t;

#define X(function, suffix, parameters) nvjpegStatus_t function parameters;
#include "nvjpegnames.h"
#undef X

#endif
