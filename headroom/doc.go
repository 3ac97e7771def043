// Package headroom says how much memory a process may use, of the machine and of the
// control groups it runs in, and keeps a mount within that while others come and go.
//
// # Bounds
//
// Memory is bounded by the machine and by each memory control group on the way from
// the process to the root, of version 1 or 2 (memory.max and memory.high, or
// memory.limit_in_bytes). Each Bound has a total, and what is left of it: what can
// still be allocated before the kernel kills somebody. File pages count as left, since
// the kernel drops them first; pages of a tmpfs, where batches live, do not.
//
// # Shares
//
// Several mounts may run within one bound, and none of them knows what the others
// were told. Past a control group's limit there is no ENOMEM: the kernel kills. So a
// mount without a limit of its own takes, of each bound,
//
//	half of the total, divided by the number of mounts in it,
//	and at most half of what is left when it starts.
//
// Mounts are counted as processes: those that run the same program, as a mount, within
// the bound. They are counted again every few seconds, so that those that were first
// give way to those that come. Three that start one after another in 400 MB may use
// 200, 100 and 67 MB at first, and 67 MB each soon after.
//
// # Giving way
//
// A Watch looks at the bounds every second, and at once when the kernel reports
// pressure (a trigger on memory.pressure of the control group, or on
// /proc/pressure/memory). Whatever limit a mount was given, it keeps to what it uses
// plus its part of what is left beyond a small reserve.
package headroom
