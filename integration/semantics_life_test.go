package integration

import (
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/batchfs/batchfs/layout"
	"golang.org/x/sys/unix"
)

// sender sends a batch without copying it, keeps the batch, and on request says whether
// what arrives equals the batch: HOW FILE BATCH SIDE.
const sender = tilesInPython + `
import ctypes, mmap, os, socket, sys
how, path, batch, side = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
want = tiles(4 * batch, 4, side)
fd = os.open(path, os.O_RDONLY)
if how == "sendfile":
    here, there = socket.socketpair()
    sent = os.sendfile(there.fileno(), fd, 0, len(want))
    end = here.fileno()
else:
    end, there = os.pipe()
    if how == "splice":
        sent = os.splice(fd, there, len(want))
    else:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_size_t
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        address = libc.mmap(None, len(want), mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        os.close(fd) # the mapping holds it
        vector = (ctypes.c_size_t * 2)(address, len(want))
        libc.vmsplice.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
        sent = libc.vmsplice(there, vector, 1, 0)
print("sent" if sent > 0 else "nothing was sent", flush=True)
sys.stdin.readline()
got = b""
while len(got) < sent:
    got += os.read(end, sent - len(got))
print("same" if got == want[:sent] else "DIFFERENT", flush=True)
`

// TestSentOnWhileHeld: pages of a batch in a pipe or a socket do not change while the batch
// is open or mapped, however many others are made meanwhile.
func TestSentOnWhileHeld(t *testing.T) {
	const side = 64 // a batch fits into a pipe
	dataset := tiles(t, 64, side)
	eachReadPath(t, func(t *testing.T, path string) {
		m := tileMount(t, dataset, "--read-path", path)
		var all []*partner
		for batch, how := range []string{"sendfile", "splice", "vmsplice"} {
			p := m.partner(t, sender, how, m.path(0, 0, batch, layout.NHWCForm), strconv.Itoa(batch), strconv.Itoa(side))
			p.expect(t, "sent")
			all = append(all, p)
		}
		m.churn(t, side, 0, 20, 4)
		for _, p := range all {
			p.tell(t, "receive")
			p.expect(t, "same")
			p.end()
		}
	})
}

// partNoLeases becomes another program, for which the kernel grants no leases, as with
// fs.leases-enable=0: PROGRAM ARGUMENTS...
func partNoLeases(args []string) error {
	const number, command = 0, 24 // offsets in struct seccomp_data, on little-endian machines
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	unless := func(value uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip, K: value}
	}
	answer := func(value uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
	}
	filter := []unix.SockFilter{
		load(number), unless(unix.SYS_FCNTL, 3), load(command), unless(unix.F_SETLEASE, 1),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)), answer(unix.SECCOMP_RET_ALLOW),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // the filter applies to this thread, and then to the program
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	runtime.KeepAlive(filter)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return unix.Exec(path, args, unix.Environ())
}

// TestWithoutLeases: if the kernel grants no leases, batches have the same bytes, and the log, the
// statistics and doctor say why they are slower.
func TestWithoutLeases(t *testing.T) {
	const side = 64
	skipWithoutPassthrough(t)
	user := root(t)
	user.run = []string{suite.self, "part-no-leases"}
	m := mountAs(t, user, tiles(t, 4*tileBatch, side), "--batch-size", "4")
	for batch := range 4 {
		m.expectTiles(t, 0, batch, side, layout.NHWCForm)
	}
	const reason = "file leases are off: sysctl fs.leases-enable=1 turns them on"
	if says := m.stats(t).Memory.ReuseError; !strings.HasPrefix(says, reason) {
		t.Errorf("stats.json says %q", says)
	}
	if out := m.run(t, suite.binary, "stats", m.dir); !strings.Contains(out, "batch memory is not reused: "+reason) {
		t.Errorf("stats does not say it:\n%s", out)
	}
	if log := m.logged(); strings.Count(log, "batch memory is freed after each batch instead of reused") != 1 || !strings.Contains(log, reason) {
		t.Errorf("the log does not say it once:\n%s", log)
	}
	out, err := output(user.daemon([]string{suite.binary, "doctor"}))
	if err != nil || !strings.Contains(out, reason) || !strings.Contains(out, "memory reuse: every batch needs newly cleared memory") {
		t.Errorf("doctor does not say it (%v):\n%s", err, out)
	}
}
