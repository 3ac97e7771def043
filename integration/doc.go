// Package integration contains the end-to-end tests: it builds batchfs, mounts it, and
// drives the mount from other processes, as users do. It contains only tests.
//
// All tests rely on:
//
//   - main_test.go, which builds the binary once, as scripts/build.sh does, with the
//     race detector and with cgo if and only if the tests have them;
//   - mount_test.go, which mounts it, as root or as an ordinary user, and unmounts it at the end of
//     a test. Whatever the test was about, the daemon must then exit with 0, leave
//     no mount and no descriptor that it should have closed, and log no data
//     race and no panic;
//   - dataset_test.go, which makes datasets, and oracle_test.go, which says what must be read
//     from them: from the files, the plan and the decoders alone, without the
//     engine or the mount.
//
// An ordinary user's mount can only be read by that user, in that user's mount namespace.
// So readers of such a mount, and whatever holds a batch while its daemon ends, run in separate
// processes, started by mounted.command: a standard tool, or Python.
//
// Nothing here sleeps or measures time. A test that cannot run on a machine is skipped with
// a message that says what is missing.
package integration
