// Package gpucheck checks a GPU. It contains only tests: whether the kernels make the same bytes on
// this GPU as processors do, whether a mount hands them over and recovers, and whether frameworks
// take them. They are skipped where there is no GPU.
//
// `make gpucheck` builds them into a program, which needs nothing but the batchfs binary. How fast
// a GPU is, cmd/bench measures. scripts/gpucheck.sh puts all three into a folder that can be
// carried to another machine, and scripts/gpucheck-run.sh runs them there; docs/gpucheck.md says
// what the results decide.
package gpucheck
