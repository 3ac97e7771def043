package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Main runs a part of a test binary instead of its tests, if the first argument names one: a
// program that reads or disturbs a mount. Otherwise it runs the tests, in a mount namespace of
// their own and with a directory for all that they write, which prepare sets up. It reports mounts
// that they leave behind. It does not return.
func Main(m *testing.M, parts map[string]func(args []string) error, prepare func(dir string) error) {
	err := error(nil)
	if part := parts[append(os.Args, "")[1]]; part != nil {
		err = part(os.Args[2:])
	} else if err = EnterOwnMounts(); err == nil {
		err = runIn(strings.TrimSuffix(filepath.Base(os.Args[0]), ".test"), m, prepare)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runIn(name string, m *testing.M, prepare func(dir string) error) error {
	dir, err := os.MkdirTemp("", "batchfs-"+name+"-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // as mountinfo shows it
	}
	if err != nil {
		return err
	}
	if err = prepare(dir); err == nil && m.Run() != 0 {
		err = fmt.Errorf("%s: some tests have failed", name)
	}
	left, _ := MountsBelow(dir)
	for _, path := range left {
		err = fmt.Errorf("%s: a mount was left behind: %s", name, path)
		_ = unix.Unmount(path, unix.MNT_DETACH)
	}
	if removed := os.RemoveAll(dir); removed != nil {
		err = removed
	}
	return err
}

// Build builds batchfs with its script, as `make build` does, but with the race detector and cgo as
// in this test, so that one command determines both.
func Build(script, output string) error {
	cmd := exec.Command(script, output)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+BuildSetting("CGO_ENABLED"))
	if RaceDetector() {
		cmd.Env = append(cmd.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -race")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build batchfs: %w\n%s", err, out)
	}
	return nil
}
