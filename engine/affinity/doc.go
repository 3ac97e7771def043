// Package affinity decides which CPUs the workers run on, and pins them there.
//
// A worker that moves between processors loses its caches, and one that runs on another socket
// than the GPU it feeds sends every batch across the link between them. Users who know their
// machine name a CPU for each worker; others leave it to the GPU's driver.
//
// # The list
//
// [Parse] reads the format of DALI_AFFINITY_MASK: decimal CPU numbers separated by commas,
// "3,5,6,10", with optional blanks around them. Worker t runs on exactly CPU list[t]. If a CPU
// is named more than once, its workers share it. A list may have more entries than there are
// workers, but each entry must be a CPU that this process may use. DALI warns of a bad entry, or
// raises, or takes 5 for "5abc", and leaves the thread where it was; here a bad entry is refused
// with its position, before any work starts.
//
// Workers past the end of the list get a set of CPUs rather than one. It is the first of these
// that is not empty:
//
//  1. what NVML recommends for the GPU: the CPUs of its socket, or, from a driver that does not know
//     sockets, its only recommendation;
//  2. the CPUs of the NUMA node that the GPU's PCI slot belongs to;
//  3. the CPUs of the NUMA nodes on which this process may have memory;
//  4. all that the process may use: the worker is not pinned.
//
// Each is restricted to the CPUs that the process may use. Listed CPUs are not excluded.
//
// Without a list nothing happens, whatever GPU there is: one mount can feed all GPUs of a
// machine, and placing it next to the first of them without being asked would be wrong for the
// rest. An empty list, as in --affinity "", counts as no list.
//
// # Machines
//
// [ThisMachine] gathers facts: this process's CPUs, NUMA nodes and GPU. What follows from them
// is arithmetic on a plain struct, [Machine], and can be tested without GPU or NUMA.
//
// NVML is called through the driver's own library, opened at run time. A build without cgo, or
// for a processor without an NVIDIA driver, has no NVML and continues with the second rule: the
// PCI slot is found in /proc and /sys. In a virtual machine that slot often has no NUMA node.
//
// All that the package knows of workers is their number. It starts no goroutine and holds no
// state, except that the driver's library stays open.
package affinity
