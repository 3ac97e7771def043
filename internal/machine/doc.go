// Package machine says what a mount may use of this machine, and keeps it to that: on which CPUs
// its workers run, and how much memory it has, given its control groups, while other processes come
// and go.
//
// # CPUs
//
// A worker that moves between processors loses its caches, and one that runs on another socket than
// the GPU it feeds sends every batch across the link between them. Users who know their machine
// name a CPU for each worker, in the format of DALI_AFFINITY_MASK ([Place]). Worker t then runs on
// exactly CPU list[t]; workers share a CPU that is named more than once. A list may have more
// entries than there are workers, but each must be a CPU that this process may use; otherwise the
// list is refused before any work starts.
//
// Workers past the end of the list run on the CPUs that NVML recommends for the GPU and that the
// process may use: those of its socket, or, from a driver that does not know sockets, its only
// recommendation. Without a recommendation they are not pinned. Listed CPUs are not excluded.
//
// The word gpu instead of a list makes all workers run there, and the threads that work for the
// GPU, too. The GPU is the mount's, or else the first that CUDA sees.
//
// Without a list nothing happens, whatever GPU there is: one mount can feed all GPUs of a machine,
// and placing it next to the first of them by default would be wrong for the rest.
//
// [GPUUseOf] reports how full and how busy a GPU is, according to NVML.
//
// NVML is called through the driver's own library, opened at run time. A build without cgo works
// without it.
//
// # Memory
//
// A [Bound] is the machine, or a memory control group that the process is in, of version 1 or 2. It
// has a total and what is left of it: how much can still be allocated before the kernel kills a
// process. File pages count as left, because the kernel drops them first. Pages of a tmpfs, which
// hold the batches, do not.
//
// Several mounts may run within one bound, and none knows the limits of the others. Exceeding a
// control group's limit does not give ENOMEM: the kernel kills. So a mount without a limit of its
// own takes, of each bound, half of the total, divided by the number of mounts in it, and at most
// half of what is left when it starts ([Memory.Share]). Mounts are recounted every few seconds, so
// that earlier ones give way to later ones.
//
// A [Watch] checks the bounds twice a second. Regardless of its limit, a mount keeps to what it
// uses plus its part of what is left beyond a small reserve.
//
// # The process
//
// [LimitHeap], [GoProcessors] and [FinishSlices] set up a process that runs an engine.
package machine
