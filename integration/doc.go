// Package integration holds the tests of the whole: it builds batchfs, mounts it,
// and drives the mount from other processes, as users do. There is no code here
// but tests.
//
// What every test relies on:
//
//   - main_test.go builds the binary once, the way scripts/build.sh does, with the
//     race detector and with cgo exactly where the tests have them;
//   - mount_test.go mounts it, as root or as an ordinary user, and unmounts it at the end of
//     a test: whatever the test was about, the daemon must then exit with 0, have
//     left no mount behind and nothing open that it should have closed, and
//     have logged no data race and no panic;
//   - dataset_test.go makes datasets, and oracle_test.go says what must be read
//     from them: from the files, the plan and the decoders alone, without the
//     engine or the mount.
//
// A mount of an ordinary user can only be read by that user, in that user's mount
// namespace. So what reads a mount runs in a process of its own, started by
// mounted.command: a standard tool, Python, or a part of this test binary.
//
// Nothing here sleeps or measures time. What cannot run on a machine is skipped,
// and says what is missing.
package integration
