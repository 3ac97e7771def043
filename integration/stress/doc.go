// Package stress tries to break a mount and to catch it returning wrong results. It
// contains only tests. They need root and /dev/fuse, and are skipped with a message
// otherwise.
//
// # The stress program
//
// TestStress mounts a small dataset with random settings and drives it from many processes
// with random actions: they open, read, map, hold, pass on, send, are interrupted,
// stopped and killed. Meanwhile files are damaged and restored, storage fails and stalls,
// limits tighten, and mounts come and go. It checks:
//
//   - every byte, against an oracle: the engine as a library, on an undisturbed copy of
//     the dataset, without FUSE (oracle_test.go);
//   - every error, against what was wrong while the call ran (weather_test.go). An
//     unexplained error is a finding, and so is one that persists when nothing is wrong
//     any more;
//   - that no action hangs;
//   - that at the end of each round every batch opens with the right bytes, and the daemon
//     has released everything: descriptors, leases, batch memory, waiting opens; that
//     it ends with status 0 when it is unmounted, and leaves no mount.
//
// It runs for -stress.for in total, in rounds of a few seconds with different settings:
//
//	go test ./integration/stress -run TestStress -v -timeout 0 -stress.for 1h
//
// A finding names the seed of its round. The seed determines the settings and the actions
// of every process, but not how the kernel interleaves them, so a rare finding may take
// several rounds to reproduce. With a seed, all rounds have it:
//
//	go test ./integration/stress -run TestStress -v -timeout 0 -stress.seed 17 -stress.for 10m
//
// To narrow a finding down, or to look beyond a known one, leave out some rows of clientDeeds and
// roundEvents.
//
// # Faults, one at a time
//
// TestFaults, TestFaultsAtStart and TestAllocations make single system calls and
// allocations of the daemon fail, following SQLite's example. They count the calls of one
// kind made while reading some batches, then have the first of them fail, the second, and
// so on. Each time, bytes must be right or the open must have failed with EIO or ENOMEM,
// and the next open must return the right bytes: a transient failure is not remembered.
// System calls are intercepted with seccomp user notification, the codecs' allocations with
// a preloaded library (testdata/failmalloc.c). By default, a sample of all places runs. To
// run all:
//
//	go test ./integration/stress -run 'TestFaults|TestAllocations' -v -timeout 0 -stress.all
//
// # Processes
//
// The process that runs the tests never touches a mount: it could deadlock on itself or on
// a stopped daemon. Everything that touches a mount is this test binary run again, as a
// "part" (main_test.go). All run in a separate mount namespace, so that nothing outside
// holds a mount and nothing is left behind.
package stress
