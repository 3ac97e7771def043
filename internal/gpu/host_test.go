package gpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/internal/ptx"
	"github.com/batchfs/batchfs/internal/testkit"
)

// compiler finds a C compiler; without one it skips the test.
func compiler(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Skipf("SKIPPED: none of the C compilers %q is installed; the GPU's kernels were not run", names)
	return ""
}

// programs are compiled once for all tests, by their flags.
var programs struct {
	dir  string
	mu   sync.Mutex
	made map[string]string
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "batchfs-gpu")
	if err != nil {
		panic(err)
	}
	programs.dir, programs.made = dir, map[string]string{}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// readSources tells go test what the compilers' results depend on; otherwise, it would consider
// them unchanged.
func readSources(t testing.TB) {
	for _, pattern := range []string{"kernels/*", "../../decode/*.h", "../../scripts/ptx.sh", "../../scripts/libraries.sh"} {
		names, err := filepath.Glob(pattern)
		if err != nil || names == nil {
			t.Fatal(pattern, err)
		}
		for _, name := range names {
			if _, err := os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// compile makes a program of kernels/host.c.
func compile(t testing.TB, flags ...string) string {
	t.Helper()
	cc := compiler(t, os.Getenv("CC"), "cc")
	programs.mu.Lock()
	defer programs.mu.Unlock()
	key := strings.Join(flags, " ")
	readSources(t)
	if programs.made[key] == "" {
		program := filepath.Join(programs.dir, strconv.Itoa(len(programs.made)))
		args := append([]string{"-std=gnu11", "-g", "-O1", "-fwrapv", "-Wall", "-Wextra", "-Werror", "-Ikernels", "kernels/host.c", "-o", program, "-pthread"}, flags...)
		if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		programs.made[key] = program
	}
	return programs.made[key]
}

// sanitized makes a program of the source that dies of bad memory accesses and undefined behaviour.
func sanitized(t testing.TB) string {
	t.Helper()
	return compile(t, "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
}

// threaded makes one with several threads in a block, which fails if they race.
func threaded(t testing.TB) string {
	t.Helper()
	return compile(t, "-fsanitize=thread", "-DSIMT_THREADS=4")
}

// compilePTX makes a program that runs PTX.
func compilePTX(t testing.TB, module string) string {
	t.Helper()
	c, err := ptx.ToC(module)
	testkit.Must(t, err)
	file := filepath.Join(programs.dir, fmt.Sprintf("%08x.c", crc32.ChecksumIEEE([]byte(c))))
	testkit.Must(t, os.WriteFile(file, []byte(c), 0o600))
	return compile(t, "-DPTX", "-Wno-implicit-fallthrough", file)
}

// host is a running program that executes batches.
type host struct {
	name   string
	in     io.WriteCloser
	out    io.Reader
	errors bytes.Buffer
	cmd    *exec.Cmd
}

// startAll runs the kernels' source and their PTX, and the source in several threads.
func startAll(t testing.TB) (all []*host, threads *host) {
	source, ptx := start(t, sanitized(t)), start(t, compilePTX(t, PTX))
	source.name, ptx.name = "source", "PTX"
	threads = start(t, threaded(t))
	threads.name = "threads"
	return []*host{source, ptx}, threads
}

// start runs a program until the test ends, which fails if the program does.
func start(t testing.TB, program string) *host {
	t.Helper()
	h := begin(t, program)
	t.Cleanup(func() {
		h.in.Close()
		if err := h.cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, h.errors.Bytes())
		}
	})
	return h
}

func begin(t testing.TB, program string, env ...string) *host {
	t.Helper()
	h := &host{cmd: exec.Command(program)}
	h.cmd.Env = append(os.Environ(), env...)
	h.cmd.Stderr = &h.errors
	var err error
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if h.out, err = h.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err = h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return h
}

// run executes a batch, and returns the tensor and the verdicts.
func (h *host) run(p *Plan, staging []byte) (slots, verdicts []byte, err error) {
	launches := p.Launches()
	slots, verdicts = make([]byte, p.tensor.Spec.Bytes()), make([]byte, p.verdictBytes())
	message := binary.NativeEndian.AppendUint64(nil, uint64(p.Staging))
	message = binary.NativeEndian.AppendUint64(message, uint64(p.Work))
	message = binary.NativeEndian.AppendUint64(message, uint64(len(slots)))
	message = binary.NativeEndian.AppendUint64(message, uint64(len(launches)))
	for _, l := range launches {
		name := [32]byte{}
		copy(name[:], l.Kernel)
		message = append(message, name[:]...)
		for _, n := range append(l.Grid[:], l.Threads, l.Shared) {
			message = binary.NativeEndian.AppendUint32(message, uint32(n))
		}
	}
	if _, err = h.in.Write(append(message, staging[:p.Staging]...)); err != nil {
		return nil, nil, err
	}
	if _, err = io.ReadFull(h.out, slots); err == nil {
		_, err = io.ReadFull(h.out, verdicts)
	}
	return slots, verdicts, err
}

// A made batch is what a program made.
type made struct {
	by              *host
	slots, verdicts []byte
	err             error
}

// runAll executes a batch by all programs at once, while the caller computes what they must make of
// it.
func runAll(hosts []*host, p *Plan, staging []byte) (wait func() []made) {
	all := make([]made, len(hosts))
	var running sync.WaitGroup
	for i, h := range hosts {
		running.Go(func() {
			all[i].by = h
			all[i].slots, all[i].verdicts, all[i].err = h.run(p, staging)
		})
	}
	return func() []made {
		running.Wait()
		return all
	}
}
