// Package headroom determines how much memory a process may use, given the machine and its
// control groups, and keeps a mount within that while other processes come and go.
//
// # Bounds
//
// Memory is bounded by the machine and by each memory control group from the process up to
// the root, of version 1 or 2 (memory.max and memory.high, or memory.limit_in_bytes). Each
// Bound has a total and what is left of it: how much can still be allocated before the
// kernel kills a process. File pages count as left, because the kernel drops them first.
// Pages of a tmpfs, which hold the batches, do not.
//
// # Shares
//
// Several mounts may run within one bound, and none knows the limits of the others.
// Exceeding a control group's limit does not give ENOMEM: the kernel kills. So a mount
// without a limit of its own takes, of each bound,
//
//	half of the total, divided by the number of mounts in it,
//	and at most half of what is left when it starts.
//
// Mounts are counted as processes that run the same program, as a mount, within the bound.
// They are recounted every few seconds, so that earlier mounts give way to later ones.
// Three that start one after another in 400 MB may use 200, 100 and 67 MB at first, and 67
// MB each soon after.
//
// # Giving way
//
// A Watch checks the bounds every second, and at once when the kernel reports pressure (a
// trigger on memory.pressure of the control group, or on /proc/pressure/memory). Regardless
// of its limit, a mount keeps to what it uses plus its part of what is left beyond a small
// reserve.
package headroom
