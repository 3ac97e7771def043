package stress

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

var (
	stressFor    = flag.Duration("stress.for", 0, "how long TestStress runs in all; 0: two minutes, and half of one with -short")
	stressSeed   = flag.Uint64("stress.seed", 0, "seed of the first round; 0: one that the clock chooses in a long run, a fixed one by default")
	stressRounds = flag.Int("stress.rounds", 0, "end after so many rounds; 0: after -stress.for")
	stressSame   = flag.Bool("stress.same", false, "give every round the same seed")
	stressRound  = flag.Duration("stress.round", 5*time.Second, "how long a mount is disturbed in each round")
	stressNot    = flag.String("stress.not", "", "leave out these events and actions, and `stuck log`, separated by commas, to narrow a finding down")
	stressAll    = flag.Bool("stress.all", false, "TestFaults tries every place, not a sample")
)

// suite is shared by all tests.
var suite struct {
	dir    string // for all files written
	binary string // the batchfs binary
	self   string // this test binary
}

// parts are the functions this binary runs as another process, selected by its first
// argument.
var parts = map[string]func(args []string) error{
	"part-client":  partClient,
	"part-calm":    partCalm,
	"part-storage": partStorage,
	"part-inject":  partInject,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if part, ok := parts[os.Args[1]]; ok {
			if err := part(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	if err := testkit.EnterOwnMounts(); err != nil {
		fmt.Fprintln(os.Stderr, "stress:", err)
		os.Exit(1)
	}
	os.Exit(runSuite(m))
}

func runSuite(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "batchfs-stress-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // as mountinfo shows it
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stress:", err)
		return 1
	}
	suite.dir, suite.binary = dir, filepath.Join(dir, "batchfs")
	if built := os.Getenv("BATCHFS_BINARY"); built != "" { // by make test, once for several runs
		suite.binary = built
	}
	if suite.self, err = os.Executable(); err != nil {
		suite.self = os.Args[0]
	}
	defer func() {
		left, _ := testkit.MountsBelow(dir)
		for _, path := range left {
			fmt.Fprintln(os.Stderr, "stress: a mount was left behind:", path)
			_ = unix.Unmount(path, unix.MNT_DETACH)
			code = max(code, 1)
		}
		_ = os.RemoveAll(dir)
	}()
	return m.Run()
}

// needMounts skips a test that cannot mount. Otherwise it builds batchfs, once.
func needMounts(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: a mount namespace of its own takes root")
	}
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skipf("SKIPPED: NO MOUNT CAN BE TESTED HERE: %v", err)
	} else {
		f.Close()
	}
	if _, err := os.Stat(suite.binary); err == nil {
		return
	}
	cmd := exec.Command("../../scripts/build.sh", suite.binary)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+testkit.BuildSetting("CGO_ENABLED"))
	if testkit.RaceDetector() {
		cmd.Env = append(cmd.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -race")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build batchfs: %v\n%s", err, out)
	}
}

// partCommand is the command that runs a part of this binary in another process. That
// process dies with this one.
func partCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(suite.self, args...)
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}
