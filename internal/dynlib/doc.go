// Package dynlib opens the libraries of NVIDIA's driver, libnvidia-ml.so.1 and libcuda.so.1, and
// CUDA's libnvjpeg at run time, so that the same program starts with and without them.
//
// The callers, mostly bindings for Go, call the functions of these libraries by name, as if the
// program were linked with them. If a library were missing, or older than a function, the dynamic
// linker would end the process at the first call; with toolchains or a libc that bind at start
// (hardened compilers, LD_BIND_NOW, musl), the program would not even start. So this package
// defines all of these functions itself (jump.h): each jumps to the library's function once the
// library is open. Without such a function, it returns the library's own error for a missing
// function.
//
// The parts for libcuda and libnvjpeg are built only with the tag cuda. They need this directory in
// the search paths of headers and libraries, which scripts/libraries.sh arranges: compiling needs
// only cuda.h and nvjpeg.h of CUDA, and linking only an empty libcuda.a.
package dynlib
