// Package gpucheck checks a GPU. It contains only tests: whether the kernels make the same bytes on this
// GPU as processors do, whether a mount hands them over and recovers, and whether frameworks take
// them. They are skipped where there is no GPU.
//
// `make gpucheck` builds them into bin/gpucheck, which needs nothing but the batchfs binary and can be
// carried to another machine with it:
//
//	./gpucheck -test.v -batchfs ./batchfs
//
// How fast a GPU is, cmd/bench measures.
package gpucheck
