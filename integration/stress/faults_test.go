package stress

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// A bench is one mount on which single calls are made to fail.
type bench struct {
	t *testing.T
	brief
	pictures pictures
	oracle   *oracle
	names    *symbols
	random   *rand.Rand
	daemon   *daemon
	reader   *reader
	turn     int // number of batches read
	tried    int // number of calls made to fail
}

// faultSettings returns the settings of a mount; together, the mounts use everything that
// can fail.
func faultSettings(onError catalog.OnError, readPath, cache string) settings {
	return settings{
		Catalog: catalogOptions(onError, 8, 5),
		Workers: 2, BatchWorkers: 1, Limit: 1 << 30, Cache: cache, CachePolicy: "constant", ReadPath: readPath, IO: "direct",
	}
}

// eachBench runs a test on mounts with each of several settings; on only two of them
// without -stress.all.
func eachBench(t *testing.T, test func(b *bench)) {
	p := needMounts(t)
	names, err := readSymbols(suite.binary)
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	all := []settings{faultSettings(engine.Zero, "auto", "0"), faultSettings(engine.Replace, "direct", "64KiB"), faultSettings(engine.Fail, "auto", "auto")}
	if !*stressAll {
		all = all[:2]
	}
	for _, s := range all {
		t.Run(s.Catalog.OnError.String()+"-"+s.ReadPath, func(t *testing.T) {
			b := &bench{t: t, brief: newBrief(filepath.Join(suite.dir, "bench"), s, 0), pictures: p, names: names, random: roundRandom(*stressSeed, 7)}
			defer os.RemoveAll(b.Dir)
			if b.oracle, _, err = b.prepare(p, b.random); err == nil {
				b.reader, err = startReader(b.file("brief.json"))
			}
			if err != nil {
				t.Fatal(err)
			}
			defer b.reader.End()
			test(b)
			t.Logf("%d calls failed, one at a time", b.tried)
		})
	}
}

// command is the daemon's command line, under the supervisor.
func (b *bench) command() *exec.Cmd {
	cmd := mountCommand(b.pictures.dir, b.Mount, b.Settings.flags(), suite.self, "part-inject")
	cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+b.cache())
	return cmd
}

// cache is the directory of the daemon's index.
func (b *bench) cache() string { return b.file("cache") }

// wishes returns batches that were not read recently, in forms that need different amounts
// of memory.
func (b *bench) wishes() (all []wish) {
	for _, form := range []layout.Form{layout.NPY, layout.NHWCForm, layout.NCHWForm} {
		all = append(all, wish{Key: b.oracle.Batches[b.turn%len(b.oracle.Batches)].Key, Form: form})
		b.turn++
	}
	return append(all, wish{Key: all[0].Key, Form: layout.Labels}, wish{Key: all[0].Key, Form: layout.PNG})
}

// allowed reports whether a read may have this result; failing: while a call fails.
func (b *bench) allowed(w wish, failing bool) bool {
	return b.oracle.right(w) || failing && (w.Errno == unix.EIO || w.Errno == unix.ENOMEM)
}

// read reads batches and returns the wrong results.
func (b *bench) read(wishes []wish, failing bool) (wrong []string) {
	got, err := b.reader.read(wishes)
	if err != nil {
		return []string{err.Error()}
	}
	for _, w := range got {
		if !b.allowed(w, failing) {
			wrong = append(wrong, w.String())
		}
	}
	return wrong
}

// TestFaults makes single system calls of a live mount fail.
func TestFaults(t *testing.T) {
	eachBench(t, func(b *bench) {
		var s *supervisor
		var err error
		if s, b.daemon, err = supervise(b.command(), b.names, b.Dir, func(*supervisor) {}); err != nil {
			b.t.Fatal(err)
		}
		defer b.unmount()
		b.read(b.wishes(), false) // initialization on first use
		for _, call := range faultyCalls {
			b.each(call.name, call.errnos, func(at int, errno unix.Errno) { s.arm(call, at, errno) }, func() (int, bool) {
				counts, hit := s.disarm()
				return counts[call], hit
			})
		}
	})
}

// chosen reports whether to try one of the given number of places: always with -stress.all,
// else with a probability that gives about sample of them. It chooses fewer with the race
// detector, which makes everything several times slower.
func (b *bench) chosen(places, sample int) bool {
	if testkit.RaceDetector() {
		places *= 3
	}
	return *stressAll || b.random.IntN(places) < sample
}

// tell logs the number of calls.
func (b *bench) tell(name string, n, before int) {
	if n > 0 {
		b.t.Logf("%s: %d calls, %d made to fail", name, n, b.tried-before)
	}
}

// enough is the number of findings after which a kind of fault is abandoned: they probably
// share a cause.
const enough = 3

// each counts the calls of a kind made by reading, then has each of them, or a sample, fail
// in each way. arm begins to count, and has the at-th call fail, or none if it is 0. disarm
// ends that, and returns the count and whether one failed.
func (b *bench) each(name string, ways []unix.Errno, arm func(at int, errno unix.Errno), disarm func() (n int, hit bool)) {
	arm(0, 0)
	if wrong := b.read(b.wishes(), false); len(wrong) > 0 {
		b.t.Errorf("%s: before any failed: %v", name, wrong)
	}
	n, _ := disarm()
	before, findings := b.tried, 0
	defer func() { b.tell(name, n, before) }()
	for at := 1; at <= n && findings < enough; at++ {
		for _, errno := range ways {
			if !b.chosen(n*len(ways), 6) {
				continue
			}
			wishes := b.wishes()
			what := fmt.Sprintf("%s %d of %d: %v", name, at, n, errno)
			arm(at, errno)
			wrong := b.read(wishes, true)
			if _, hit := disarm(); !hit {
				continue // not the same calls as when counting
			}
			b.tried++
			after := b.read(wishes, false)
			if len(wrong) > 0 || len(after) > 0 {
				findings++
				b.t.Errorf("FINDING: %s: %v; and the next time: %v", what, wrong, after)
			}
			if !b.daemon.Running() {
				b.t.Fatalf("FINDING: %s: the daemon ended", what)
			}
		}
	}
	if kept := b.daemon.keptFor(patience / 6); kept != "" {
		b.t.Errorf("FINDING: after %s: %s", name, kept)
	}
}

// unmount ends the daemon and checks that it ends cleanly.
func (b *bench) unmount() {
	if b.daemon != nil && b.daemon.Running() {
		if err := errors.Join(unmountAnyway(b.daemon.dir), b.daemon.ended()); err != nil {
			b.t.Errorf("FINDING: at the end: %v", err)
		}
	}
	if b.daemon != nil && b.t.Failed() {
		tellLog(b.t, b.daemon.Logged())
	}
}

// TestFaultsAtStart makes single system calls fail while a mount starts and is first read.
// It must fail with a message, or become a mount that is right.
func TestFaultsAtStart(t *testing.T) {
	eachBench(t, func(b *bench) {
		counts := b.startWith(nil, 0, 0)
		for _, call := range faultyCalls {
			n, before := counts[call], b.tried
			for at := 1; at <= n; at++ {
				for _, errno := range call.errnos {
					if b.chosen(n*len(call.errnos), 1) {
						b.startWith(call, at, errno)
						b.tried++
					}
				}
			}
			b.tell(call.name, n, before)
		}
	})
}

// startWith mounts with one failing call, reads something, unmounts, and returns the number
// of calls of each kind.
func (b *bench) startWith(call *faultyCall, at int, errno unix.Errno) map[*faultyCall]int {
	_ = os.Remove(b.file("log"))
	if b.Settings.ReadPath == "direct" { // mounts with direct scan the dataset; the others have its index
		_ = os.RemoveAll(b.cache())
	}
	what := "at the start, when nothing fails"
	if call != nil {
		what = fmt.Sprintf("at the start, %s %d: %v", call.name, at, errno)
	}
	s, d, err := supervise(b.command(), b.names, b.Dir, func(s *supervisor) { s.arm(call, at, errno) })
	if err != nil {
		counts, hit := s.disarm()
		if d == nil || !hit || d.Cmd.ProcessState.ExitCode() != 1 || !strings.Contains(d.Logged(), "batchfs: error: ") {
			b.t.Errorf("FINDING: %s: %v", what, err)
		}
		if left, err := testkit.MountsBelow(b.Dir); err != nil || len(left) > 0 {
			b.t.Errorf("FINDING: %s: mounts are left: %v %v", what, left, err)
		}
		return counts
	}
	b.daemon = d
	defer b.unmount()
	wishes := b.wishes()
	if wrong := b.read(wishes, call != nil); len(wrong) > 0 {
		b.t.Errorf("FINDING: %s: %v", what, wrong)
	}
	counts, _ := s.disarm()
	if wrong := b.read(wishes, false); len(wrong) > 0 {
		b.t.Errorf("FINDING: after, %s: %v", what, wrong)
	}
	return counts
}
