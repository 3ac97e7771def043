// Package stress tries to break a mount, and to catch it at being wrong. There is no code
// here but tests; they need root and /dev/fuse, and say so where they are skipped.
//
// # The stress program
//
// TestStress mounts a small dataset with random settings and drives it from many
// processes with random actions: they open, read, map, hold, fork, pass on, send, are
// interrupted, stopped and killed, while files are damaged and restored, storage fails
// and stalls, limits tighten, and mounts come and go. What it checks:
//
//   - every byte, against an oracle: the engine as a library, on an undisturbed copy of
//     the dataset, without FUSE (oracle_test.go);
//   - every error, against what was wrong while the call ran (weather_test.go). An error
//     that nothing explains is a finding, and so is one that stays when nothing is wrong
//     any more;
//   - that no action hangs;
//   - that at the end of each round every batch opens with the right bytes, and the daemon
//     has given everything back: descriptors, leases, batch memory, waiting opens; that
//     it ends with status 0 when it is unmounted, and leaves no mount.
//
// It runs for -stress.for in all, in rounds of a few seconds, each with settings of its
// own:
//
//	go test ./integration/stress -run TestStress -v -timeout 0 -stress.for 1h
//
// A finding names the seed of its round. The seed chooses the settings and the actions of
// every process, not how the kernel interleaves them, so that a rare finding may take
// several rounds to come back:
//
//	go test ./integration/stress -run TestStress -v -timeout 0 -stress.seed 17 -stress.rounds 20 -stress.same
//
// -stress.not leaves out some of what happens, which narrows a finding down, and helps to look
// beyond one that is known.
//
// # Faults, one at a time
//
// TestFaults, TestFaultsAtStart and TestAllocations make single system calls and allocations
// of the daemon fail, after SQLite's example: they count the calls of one kind that reading some batches takes, then have the
// first of them fail, the second, and so on. After each, bytes must be right or the open
// must have failed with EIO or ENOMEM, and the next open must give the right bytes: what
// the machine refused once is not remembered. System calls are caught by seccomp's user
// notification, codecs' allocations by a preloaded library (testdata/failmalloc.c). A
// sample of all places runs by default; all of them by
//
//	go test ./integration/stress -run 'TestFaults|TestAllocations' -v -timeout 0 -stress.all
//
// # Processes
//
// The process that tests never touches a mount: it might wait for itself or for a daemon
// that is stopped. Everything that does is this test binary again, as a "part"
// (main_test.go). All run in a mount namespace of their own, so that nothing outside holds
// a mount, and nothing is left behind.
package stress
