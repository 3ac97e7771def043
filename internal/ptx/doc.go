// Package ptx runs GPU code without a GPU, for tests: [ToC] translates PTX, the assembly language
// that drivers load, to C. It knows the instructions of batchfs's own kernels; any other one is an
// error, never a guess.
//
// # The generated C
//
// One self-contained C11 translation unit, for gcc or clang with -fwrapv, without main. Each kernel
// NAME of the PTX becomes one function with external linkage, which may be called from several
// threads at once:
//
//	int ptx_NAME(const unsigned grid[3], const unsigned block[3], size_t shared, const void *params, size_t size);
//
// grid and block are the launch's dimensions; block[1] and block[2] must be 1. shared is the size
// of the shared memory in bytes. params points to the kernel's parameters, laid out as in PTX:
// batchfs's kernels have one, the address of a struct, so params points to 8 bytes that contain it,
// and size is 8. Pointers are those of the host. The function returns when all blocks have run:
//
//	0  they ran
//	1  the launch is impossible: the parameters' size, a block that is not 1 to 1,024 threads in one
//	   dimension, or more than its kernel allows (.maxntid), an empty grid, or more than 48 KB of shared memory
//	2  memory was used outside of its bounds, or at an address that is not aligned
//	3  some threads of a block wait at a barrier that others never reach
//	4  there is no memory for the threads' registers
//
// After 2, a line on standard error names the instruction. Bounds are always checked in shared
// memory; in global memory if the caller sets
//
//	int (*ptx_find)(uint64_t at, uint64_t *start, uint64_t *bytes);
//
// before the first launch: it finds the allocation that contains an address, or returns 0. Races
// are not detected: the thread sanitizer finds those in the kernels' source.
//
// After an error, the effects of earlier blocks remain. Blocks run one after the other, and so do
// the threads of a block, each from one barrier to the next: in the order of their numbers, or
// blocks and threads in the opposite order if the environment variable PTX_REVERSED is set. Results
// are therefore the same each time. Shared memory and registers start with the bytes 0xa5 and 0x5a.
package ptx
