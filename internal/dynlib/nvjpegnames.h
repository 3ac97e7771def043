/*
 * The functions of libnvjpeg that batchfs calls: X(name, , parameters). All return an nvjpegStatus_t.
 */
X(nvjpegCreateEx, , (nvjpegBackend_t, nvjpegDevAllocator_t *, nvjpegPinnedAllocator_t *, unsigned, nvjpegHandle_t *))
X(nvjpegDecodeBatched, , (nvjpegHandle_t, nvjpegJpegState_t, const unsigned char *const *, const size_t *, nvjpegImage_t *, cudaStream_t))
X(nvjpegDecodeBatchedInitialize, , (nvjpegHandle_t, nvjpegJpegState_t, int, int, nvjpegOutputFormat_t))
X(nvjpegDecodeBatchedSupportedEx, , (nvjpegHandle_t, nvjpegJpegStream_t, nvjpegDecodeParams_t, int *))
X(nvjpegDecodeParamsCreate, , (nvjpegHandle_t, nvjpegDecodeParams_t *))
X(nvjpegDecodeParamsDestroy, , (nvjpegDecodeParams_t))
X(nvjpegDecodeParamsSetOutputFormat, , (nvjpegDecodeParams_t, nvjpegOutputFormat_t))
X(nvjpegDestroy, , (nvjpegHandle_t))
X(nvjpegGetProperty, , (libraryPropertyType, int *))
X(nvjpegJpegStateCreate, , (nvjpegHandle_t, nvjpegJpegState_t *))
X(nvjpegJpegStateDestroy, , (nvjpegJpegState_t))
X(nvjpegJpegStreamCreate, , (nvjpegHandle_t, nvjpegJpegStream_t *))
X(nvjpegJpegStreamDestroy, , (nvjpegJpegStream_t))
X(nvjpegJpegStreamParseHeader, , (nvjpegHandle_t, const unsigned char *, size_t, nvjpegJpegStream_t))
