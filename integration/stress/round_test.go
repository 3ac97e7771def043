package stress

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// roundClients is the number of processes that read a mount concurrently.
const roundClients = 5

// A round is one mount with its settings, its clients and the events that disturb them.
type round struct {
	brief
	pictures pictures
	random   *rand.Rand // for the saboteur
	weather  *weather
	oracle   *oracle
	daemon   *daemon
	former   []*daemon        // daemons whose mounts were detached
	storage  *testkit.Partner // hangfs.Serve; nil: the dataset is read directly
	clients  []*child
	damaged  [maxVictims]bool
	stuck    []*os.File  // pipes for logs that nothing reads
	guests   []*exec.Cmd // processes with separate mount namespaces
	report   report

	mu       sync.Mutex
	findings []string
	log      bytes.Buffer // what the saboteur did
	running  *daemon      // daemon, for the watchdog
	killed   int64        // when a daemon last died without unmounting, in monotonic()'s time
}

func newRound(p pictures, seed uint64) (r *round, err error) {
	r = &round{pictures: p, random: roundRandom(seed, 0)}
	r.brief = newBrief(filepath.Join(suite.dir, fmt.Sprintf("round-%d", seed)), randomSettings(r.random), seed)
	r.oracle, r.weather, err = r.prepare(p, r.random)
	return r, err
}

// run runs the round from mount to unmount and collects findings.
func (r *round) run() {
	if err := r.setUp(); err != nil {
		r.find("%v", err)
		if r.storage != nil {
			_ = r.storage.End()
		}
		return
	}
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(stop) })
	for i := range roundClients {
		r.clients = append(r.clients, r.startClient(i, 0))
	}
	r.disturb(time.Now().Add(*stressRound))
	r.settle()
	r.calm()
	close(stop)
	watching.Wait()
	r.tearDown()
	r.report.add(r.weather.report())
}

// setUp mounts the storage, if there is one, and the batches.
func (r *round) setUp() (err error) {
	if r.Settings.FaultyFS {
		if err := os.Mkdir(r.dataset(), 0o755); err != nil {
			return err
		}
		if r.storage, err = testkit.StartPartner(partCommand("part-storage", r.pictures.dir, r.dataset()), patience); err == nil {
			err = r.storage.Expect("ready")
		}
		if err != nil {
			return err
		}
	}
	return r.mount()
}

// dataset is the path the daemon reads.
func (r *round) dataset() string {
	if r.Settings.FaultyFS {
		return r.file("storage")
	}
	return r.pictures.dir
}

// mount starts a daemon.
func (r *round) mount() (err error) {
	cmd := mountCommand(r.dataset(), r.Mount, r.Settings.flags())
	if r.Settings.StuckLog {
		if cmd.Stderr, err = r.stuckPipe(); err != nil {
			return err
		}
		defer cmd.Stderr.(*os.File).Close()
	}
	d, err := start(cmd, r.Dir)
	if err != nil {
		return err
	}
	r.daemon = d
	r.mu.Lock()
	r.running = d
	r.mu.Unlock()
	return nil
}

// stuckPipe returns a small pipe that nothing reads during the round.
func (r *round) stuckPipe() (*os.File, error) {
	end, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.stuck = append(r.stuck, end)
	_, err = unix.FcntlInt(pipe.Fd(), unix.F_SETPIPE_SZ, 4096)
	return pipe, err
}

func (r *round) find(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, fmt.Sprintf(format, args...))
}

// failed reports whether there is a finding, so that the rest can be skipped.
func (r *round) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.findings) > 0
}

// note logs what the saboteur does.
func (r *round) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.log, "%12d %s\n", monotonic()/1000, fmt.Sprintf(format, args...))
}

// settle ends all disturbances, then the clients.
func (r *round) settle() {
	r.note("all is restored")
	if err := r.restoreAll(); err != nil {
		r.find("%v", err)
	}
	r.weather.stop()
	for _, c := range r.clients {
		r.endClient(c)
	}
}

// tell reports findings, with everything that helps to understand them.
func (r *round) tell(t *testing.T) {
	t.Helper()
	for _, f := range r.findings {
		t.Errorf("FINDING: %s", f)
	}
	t.Logf("to try again: go test ./integration/stress -run TestStress -v -stress.seed %d -stress.round %v", r.Seed, *stressRound)
	t.Logf("settings: %v", r.Settings)
	t.Logf("what happened to the mount:\n%s", tail(r.log.String(), 60))
	names, _ := filepath.Glob(r.file("client-*.log"))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		t.Logf("%s:\n%s", filepath.Base(name), tail(string(text), 12))
	}
	text, _ := os.ReadFile(r.file("log"))
	tellLog(t, string(text))
}

// tellLog shows the end of a daemon's log, and the goroutines if it crashed.
func tellLog(t *testing.T, log string) {
	t.Helper()
	log, goroutines, crashed := strings.Cut(log, "\ngoroutine ")
	t.Logf("the daemon's log:\n%s", tail(log, 60))
	if crashed {
		t.Logf("the goroutines of its crash:\n%s", tail(goroutines, 90))
	}
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(all) > lines {
		all = append([]string{"..."}, all[len(all)-lines:]...)
	}
	return strings.Join(all, "\n")
}
