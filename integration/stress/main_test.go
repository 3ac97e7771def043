package stress

import (
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/hangfs"
	"github.com/batchfs/batchfs/internal/testkit"
)

var (
	stressFor   = flag.Duration("stress.for", 0, "how long TestStress runs in all; 0: two minutes, and a third of one with -short")
	stressSeed  = flag.Uint64("stress.seed", 0, "seed of every round, to repeat a finding; 0: each has its own")
	stressRound = flag.Duration("stress.round", 5*time.Second, "how long a mount is disturbed in each round")
	stressAll   = flag.Bool("stress.all", false, "TestFaults tries every place, not a sample")
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
	"part-reader":  partReader,
	"part-storage": func(args []string) error { return hangfs.Serve(args, os.Stdin, os.Stdout) },
	"part-inject":  partInject,
}

func TestMain(m *testing.M) {
	testkit.Main(m, parts, func(dir string) (err error) {
		suite.dir, suite.binary = dir, filepath.Join(dir, "batchfs")
		if built := os.Getenv("BATCHFS_BINARY"); built != "" { // by make test, once for several runs
			suite.binary = built
		}
		suite.self, err = os.Executable()
		return err
	})
}

// needMounts skips a test that cannot mount. Otherwise it builds batchfs and makes the dataset,
// each once.
func needMounts(t *testing.T) pictures {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: a mount namespace of its own takes root")
	}
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skipf("SKIPPED: NO MOUNT CAN BE TESTED HERE: %v", err)
	} else {
		f.Close()
	}
	if _, err := os.Stat(suite.binary); err != nil {
		if err := testkit.Build("../../scripts/build.sh", suite.binary); err != nil {
			t.Fatal(err)
		}
	}
	p, err := smallPictures()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// partCommand is the command that runs a part of this binary in another process. That
// process dies with this one.
func partCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(suite.self, args...)
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// TestStress is the stress program; the package's comment describes it.
func TestStress(t *testing.T) {
	p := needMounts(t)
	seed, length := max(1, *stressSeed), *stressFor
	if *stressSeed == 0 && length > time.Minute {
		seed = uint64(time.Now().Unix())
	}
	if length == 0 {
		length = 2 * time.Minute
		if testing.Short() {
			length = 20 * time.Second
		}
	}
	var sum report
	for began, n := time.Now(), 0; n == 0 || time.Since(began) < length; n++ {
		r, err := newRound(p, seed)
		if err != nil {
			t.Fatalf("round %d: %v", seed, err)
		}
		r.run()
		sum.add(r.report)
		t.Logf("round %d: %v %v", seed, r.report, r.Settings)
		if len(r.findings) > 0 {
			r.tell(t)
			break
		}
		if err := os.RemoveAll(r.Dir); err != nil {
			t.Fatal(err)
		}
		if *stressSeed == 0 {
			seed++
		}
	}
	t.Logf("in all: %v", sum)
	if sum[opened] == 0 {
		t.Error("nothing was read")
	}
}

func roundRandom(seed, part uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, part)) }
