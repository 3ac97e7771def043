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

// An account is who mounts and reads: the user who runs the tests, or an ordinary
// one that root turns into.
type account struct {
	name string
	id   int    // of user and group; -1: whoever runs the tests
	home string // for an ordinary user
}

func (a account) String() string { return a.name }

// nobody's number, on every system.
const ordinaryID = 65534

func thisUser() account {
	if os.Getuid() == 0 {
		return account{name: "root", id: -1}
	}
	return account{name: "user", id: -1}
}

// ordinaryUser is the one who runs the tests, where that is not root; else one
// who lives in a mount namespace of its own, in which anybody may open /dev/fuse.
// Where that cannot be had, the test is skipped.
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
	if err := os.Mkdir(a.home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := a.own(a.home); err != nil {
		t.Fatal(err)
	}
	return a
}

// root is the user who runs the tests, where that is root.
func root(t testing.TB) account {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: mounts by root can only be tested by root")
	}
	return thisUser()
}

// enterNamespace makes a mount namespace with a device that everybody may open, and
// runs the rest of its arguments there as an ordinary user.
const enterNamespace = `set -e
device=$1 id=$2
shift 2
if ! setpriv --reuid "$id" --regid "$id" --clear-groups -- sh -c ': <>/dev/fuse' 2>/dev/null; then
	mount --bind "$device" /dev/fuse
fi
exec setpriv --reuid "$id" --regid "$id" --clear-groups -- "$@"`

// ordinaryUserReason says why no ordinary user can be had, by trying.
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

// fuseDevice is a copy of /dev/fuse that everybody may open.
func fuseDevice() string { return filepath.Join(suite.dir, "fuse") }

// environment is the account's own home, with a cache for indexes in it. Where
// there is a race detector, it shall not wait a second at each exit.
func (a account) environment() []string {
	home := a.home
	if home == "" {
		home = suite.dir
	}
	return append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"), "NOTIFY_SOCKET=", "GORACE=atexit_sleep_ms=0")
}

// own gives a file to the account.
func (a account) own(path string) error {
	if a.id < 0 {
		return nil
	}
	return os.Chown(path, a.id, a.id)
}

// daemon is a program that the account runs in its own mount namespace. The
// process that is started becomes the program.
func (a account) daemon(args []string) *exec.Cmd {
	if a.id >= 0 {
		args = slices.Concat([]string{"unshare", "--mount", "--propagation", "private", "--",
			"sh", "-c", enterNamespace, "sh", fuseDevice(), strconv.Itoa(a.id)}, args)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = a.environment()
	return cmd
}

// reader is a program that the account runs in the namespace of a daemon.
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
