package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// An account is the user who mounts and reads: the user who runs the tests, or an ordinary
// user that root switches to.
type account struct {
	name string
	id   int      // user and group; -1: the user who runs the tests
	home string   // for an ordinary user
	run  []string // a program that runs its daemons, with the first of its arguments; nil: none
}

func (a account) String() string { return a.name }

// The number of user nobody, on every system.
const ordinaryID = 65534

func thisUser() account {
	if os.Getuid() == 0 {
		return account{name: "root", id: -1}
	}
	return account{name: "user", id: -1}
}

// ordinaryUser is the user who runs the tests, unless that is root. For root it is a user
// in a separate mount namespace where any user may open /dev/fuse. If that is unavailable,
// the test is skipped.
func ordinaryUser(t testing.TB) account {
	t.Helper()
	skipWithoutFUSE(t)
	if os.Getuid() != 0 {
		return thisUser()
	}
	if reason := ordinaryUserReason(); reason != "" {
		t.Skipf("SKIPPED: nothing can be mounted as an ordinary user here: %s", reason)
	}
	a := account{name: "user", id: ordinaryID, home: filepath.Join(scratch(t), "home")}
	check(t, os.Mkdir(a.home, 0o755))
	check(t, a.own(a.home))
	return a
}

// root is the user who runs the tests. It skips the test if that is not root.
func root(t testing.TB) account {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: mounts by root can only be tested by root")
	}
	return thisUser()
}

// enterNamespace makes a mount namespace with a device that every user may open, and runs
// the rest of its arguments there as an ordinary user.
const enterNamespace = `set -e
device=$1 id=$2
shift 2
if ! setpriv --reuid "$id" --regid "$id" --clear-groups -- sh -c ': <>/dev/fuse' 2>/dev/null; then
	mount --bind "$device" /dev/fuse
fi
exec setpriv --reuid "$id" --regid "$id" --clear-groups -- "$@"`

// ordinaryUserReason tries to run as an ordinary user, and says why that fails.
var ordinaryUserReason = sync.OnceValue(func() string {
	for _, tool := range []string{"fusermount3", "unshare", "nsenter", "setpriv", "mknod", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is not installed"
		}
	}
	device := fuseDevice()
	if _, err := os.Stat(device); err != nil {
		if _, err := output(exec.Command("mknod", "-m", "666", device, "c", "10", "229")); err != nil {
			return "mknod: " + err.Error()
		}
	}
	a := account{name: "user", id: ordinaryID}
	if _, err := output(a.daemon([]string{"sh", "-c", ": <>/dev/fuse"})); err != nil {
		return strings.TrimSpace(err.Error())
	}
	return ""
})

// fuseDevice is a copy of /dev/fuse that every user may open.
func fuseDevice() string { return filepath.Join(suite.dir, "fuse") }

// environment sets the account's own home, which contains a cache for indexes. It disables
// the race detector's one-second sleep at exit, and PyTorch's threads, which spin while they wait.
func (a account) environment() []string {
	home := a.home
	if home == "" {
		home = suite.dir
	}
	return append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"), "NOTIFY_SOCKET=", "GORACE=atexit_sleep_ms=0", "OMP_NUM_THREADS=1")
}

// own gives a file to the account.
func (a account) own(path string) error {
	if a.id < 0 {
		return nil
	}
	return os.Chown(path, a.id, a.id)
}

// daemon runs a program as the account in its own mount namespace. The started process
// becomes the program.
func (a account) daemon(args []string) *exec.Cmd {
	args = slices.Concat(a.run, args)
	if a.id >= 0 {
		args = slices.Concat([]string{"unshare", "--mount", "--propagation", "private", "--",
			"sh", "-c", enterNamespace, "sh", fuseDevice(), strconv.Itoa(a.id)}, args)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = a.environment()
	return cmd
}

// reader runs a program as the account in the namespace of a daemon.
func (a account) reader(pid int, args []string) *exec.Cmd {
	if a.id >= 0 {
		id := strconv.Itoa(a.id)
		args = slices.Concat([]string{"nsenter", "--mount", "--target", strconv.Itoa(pid), "--",
			"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--"}, args)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = a.environment()
	return cmd
}
