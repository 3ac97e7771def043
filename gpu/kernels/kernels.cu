/* All kernels, as one module. */
#include "place.cu"
