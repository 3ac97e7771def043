// Package gpucheck checks a GPU. It contains only tests: whether the kernels make the same bytes on
// this GPU as processors do, whether a mount hands them over and recovers, whether frameworks take
// them, and how fast all that is. They are skipped if there is no GPU.
//
// `make gpucheck` builds them into a program, which needs nothing but the batchfs binary.
// scripts/gpucheck.sh puts both into a folder that can be carried to another machine, and
// scripts/gpucheck-run.sh runs them there; docs/gpucheck.md says what the results decide.
package gpucheck
