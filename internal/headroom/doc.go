// Package headroom determines how much memory a process may use, given the machine and its
// control groups, and keeps a mount within that while other processes come and go.
//
// A [Bound] is the machine, or a memory control group that the process is in, of version 1 or 2.
// It has a total and what is left of it: how much can still be allocated before the kernel kills
// a process. File pages count as left, because the kernel drops them first. Pages of a tmpfs,
// which hold the batches, do not.
//
// Several mounts may run within one bound, and none knows the limits of the others. Exceeding a
// control group's limit does not give ENOMEM: the kernel kills. So a mount without a limit of
// its own takes, of each bound, half of the total, divided by the number of mounts in it, and at
// most half of what is left when it starts ([Host.Share]). Mounts are recounted every few
// seconds, so that earlier ones give way to later ones.
//
// A [Watch] checks the bounds twice a second. Regardless of its limit, a mount keeps to what it
// uses plus its part of what is left beyond a small reserve.
package headroom
