// Package machine decides which CPUs the workers run on, and pins them there.
//
// A worker that moves between processors loses its caches, and one that runs on another socket
// than the GPU it feeds sends every batch across the link between them. Users who know their
// machine name a CPU for each worker, in the format of DALI_AFFINITY_MASK ([Place]). Worker t
// then runs on exactly CPU list[t]; workers share a CPU that is named more than once. A list may
// have more entries than there are workers, but each must be a CPU that this process may use;
// otherwise the list is refused before any work starts.
//
// Workers past the end of the list run on the CPUs that NVML recommends for the GPU and that the
// process may use: those of its socket, or, from a driver that does not know sockets, its only
// recommendation. Without a recommendation they are not pinned. Listed CPUs are not excluded.
//
// The word gpu in place of a list has all of them run there, and the threads that work for the GPU,
// too. The GPU is the one that the mount has, else the first that CUDA sees.
//
// Without a list nothing happens, whatever GPU there is: one mount can feed all GPUs of a machine,
// and placing it next to the first of them without being asked would be wrong for the rest.
//
// What else NVML says about a GPU, how full and how busy it is, is here, too ([GPUUseOf]).
//
// NVML is called through the driver's own library, opened at run time. A build without cgo does
// without it.
package machine
