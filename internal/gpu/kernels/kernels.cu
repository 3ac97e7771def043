/* All kernels, as one module. */
#include "entropy.cu"
#include "pixels.cu"
#include "place.cu"
