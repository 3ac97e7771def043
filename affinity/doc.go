// Package affinity decides which CPUs the workers run on, and puts them there.
//
// A worker that is moved between processors leaves its caches behind, and one that
// runs on another socket than the GPU it feeds sends every batch across the link
// between them. Who knows his machine names a CPU for each worker; who does not
// leaves it to the GPU's driver.
//
// # The list
//
// [Parse] reads what DALI_AFFINITY_MASK holds: decimal CPU numbers between commas,
// "3,5,6,10", blanks around them accepted. Worker t runs on exactly CPU list[t].
// A CPU may be named more than once: its workers then share it. More entries than
// workers are no mistake, but each of them must be a CPU that this process may
// use. DALI warns of a bad entry, or raises, or takes 5 for "5abc", and leaves
// the thread where it was; here a bad entry is refused with its position, before
// any work starts.
//
// Workers past the end of the list are given a set of CPUs rather than one, the first
// of these that leaves any:
//
//  1. what NVML recommends for the GPU: the CPUs of its socket, or the driver's
//     only opinion where it knows no sockets;
//  2. the CPUs of the NUMA node that the GPU's PCI slot belongs to;
//  3. the CPUs of the NUMA nodes this process may have memory on;
//  4. all that the process may use: the worker is left alone.
//
// Each is cut down to the CPUs that the process may use. Listed CPUs are not taken out
// of it.
//
// Without a list nothing was asked for, and nothing happens, whatever GPU there is:
// one mount can feed all the GPUs of a machine, and putting it beside the first
// of them unasked would be wrong for the rest. An empty list, as in --affinity "",
// is no list.
//
// # Machines
//
// [ThisMachine] gathers facts: this process's CPUs, NUMA nodes and GPU. What follows
// from them is arithmetic on a plain struct, [Machine], and needs neither GPU nor
// NUMA to be tested.
//
// NVML is asked through the driver's own library, opened at run time. A build
// without cgo, or for a processor that NVIDIA has no driver for, has no NVML and goes
// on with the second rule: the PCI slot is found in /proc and /sys. In a
// virtual machine that slot often has no NUMA node.
//
// The package knows nothing of workers but their number. It starts no goroutine and
// holds no state, except that the driver's library, once opened, stays.
package affinity
