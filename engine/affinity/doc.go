// Package affinity decides which CPUs the workers run on, and pins them there.
//
// A worker that moves between processors loses its caches, and one that runs on another socket
// than the GPU it feeds sends every batch across the link between them. Users who know their
// machine name a CPU for each worker, in the format of DALI_AFFINITY_MASK ([Parse]). Worker t
// then runs on exactly CPU list[t]; workers share a CPU that is named more than once. A list may
// have more entries than there are workers, but each must be a CPU that this process may use;
// otherwise the list is refused before any work starts.
//
// Workers past the end of the list get the first of these sets that is not empty, each
// restricted to the CPUs that the process may use:
//
//  1. what NVML recommends for the GPU: the CPUs of its socket, or, from a driver that does not know
//     sockets, its only recommendation;
//  2. the CPUs of the NUMA node that the GPU's PCI slot belongs to;
//  3. the CPUs of the NUMA nodes on which this process may have memory;
//  4. all that the process may use: the worker is not pinned.
//
// Listed CPUs are not excluded. Without a list nothing happens, whatever GPU there is: one mount
// can feed all GPUs of a machine, and placing it next to the first of them without being asked
// would be wrong for the rest.
//
// NVML is called through the driver's own library, opened at run time. Without it, or in a build
// without cgo, the second rule applies: the PCI slot is found in /proc and /sys.
package affinity
