package integration

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// holder holds a batch in one of many ways. For every input line it says whether the batch
// is unchanged: MODE FILE BATCH SIDE START. START is where the tiles begin in the file.
const holder = tilesInPython + `
import array, ctypes, mmap, os, socket, sys
mode, path = sys.argv[1:3]
batch, side, start = map(int, sys.argv[3:])
want = tiles(4 * batch, 4, side)
size = start + len(want)
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_size_t
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]

def mapped(fd, flags=mmap.MAP_SHARED):
    # Python's own mmap would keep the file open.
    address = libc.mmap(None, size, mmap.PROT_READ, flags, fd, 0)
    os.close(fd)
    if address == 2**64 - 1:
        raise OSError(ctypes.get_errno(), "mmap")
    return lambda: ctypes.string_at(address + start, len(want))

def received(end):
    _, extra, _, _ = end.recvmsg(1, socket.CMSG_SPACE(4))
    return array.array("i", extra[0][2])[0]

def send(end, fd):
    end.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    os.close(fd)

fd = os.open(path, os.O_RDONLY)
look = None
if mode == "open":
    look = lambda: os.pread(fd, size, 0)[start:]
elif mode == "mapped":
    look = mapped(fd)
    look()
elif mode == "untouched":
    look = mapped(fd)
elif mode == "private":
    look = mapped(fd, mmap.MAP_PRIVATE)
    look()
elif mode == "forked":
    look = mapped(fd)
    if os.fork():
        os._exit(0)
elif mode == "passed":
    here, there = socket.socketpair()
    if os.fork():
        send(there, fd)
        os._exit(0)
    os.close(fd)
    fd = received(here)
    look = lambda: os.pread(fd, size, 0)[start:]
elif mode == "passed and mapped":
    here, there = socket.socketpair()
    if os.fork():
        send(there, fd)
        os._exit(0)
    os.close(fd)
    look = mapped(received(here))
elif mode == "on its way":  # in a socket, where no process has it
    here, there = socket.socketpair()
    send(there, fd)
    def look():
        global look
        look = mapped(received(here))
        return look()
print("holding", flush=True)
for _ in sys.stdin:
    print("same" if look() == want else "DIFFERENT", flush=True)
`

var holderModes = []string{"open", "mapped", "untouched", "private", "forked", "passed", "passed and mapped", "on its way"}

// hold starts a holder of a batch of epoch 0.
func (m *mounted) hold(t testing.TB, mode string, batch, side int, form layout.Form) *partner {
	t.Helper()
	start := layout.DataOffset(form, layout.Spec{N: tileBatch, H: side, W: side, C: 3})
	p := m.partner(t, holder, mode, m.path(0, 0, batch, form), strconv.Itoa(batch), strconv.Itoa(side), strconv.FormatInt(start, 10))
	p.expect(t, "holding")
	return p
}

// stillSame checks that holders see unchanged batches.
func stillSame(t testing.TB, when string, holders map[string]*partner) {
	t.Helper()
	for mode, p := range holders {
		p.tell(t, "look")
		if got := p.line(t); got != "same" {
			t.Errorf("%s, %s: the bytes are %s", when, mode, got)
		}
	}
}

func endAll(holders map[string]*partner) {
	for _, p := range holders {
		p.end()
	}
}

// TestBuffersAreReusedOnlyUnseen: a batch stays unchanged as long as any process can see it
// in any way, while memory is reused for other batches again and again.
func TestBuffersAreReusedOnlyUnseen(t *testing.T) {
	const side, epochs, readers = 16, 130, 4
	dataset := tiles(t, 64, side) // 16 batches
	eachReadPath(t, func(t *testing.T, path string) {
		m := tileMount(t, dataset, "--read-path", path, "--epochs", strconv.Itoa(epochs))
		holders := map[string]*partner{}
		for i, mode := range holderModes {
			for _, form := range []layout.Form{layout.NHWCForm, layout.NPY} {
				name := mode + " " + form.Ext()
				holders[name] = m.hold(t, mode, 2*i%16, side, form)
				switch mode {
				case "forked", "passed", "passed and mapped":
					holders[name].gone(t) // the process that opened it
				}
			}
		}
		stillSame(t, "at once", holders)
		made := m.churn(t, side, 1, epochs, readers)
		stillSame(t, fmt.Sprintf("after %d batches", made), holders)
		s := m.stats(t)
		if s.Batches.Decoded < int64(made)/2 {
			t.Fatalf("%d batches were opened, but only %d made", made, s.Batches.Decoded)
		}
		// Up to 16 streams are remembered, each with kept and prefetched batches. Without
		// reuse there would be thousands of batches.
		const batch = 2 * 4096 // with a header
		if most := int64(len(holders)+16*12) * batch; s.Memory.Batches > most {
			t.Errorf("batches take %d bytes after %d were made; reused, they should take at most %d", s.Memory.Batches, made, most)
		}
		endAll(holders)
		m.churn(t, side, 0, 10, readers) // reuses the memory that was held
	})
}

// churn reads and checks every batch of a range of epochs, divided among several readers,
// and returns their number.
func (m *mounted) churn(t testing.TB, side, from, to, readers int) int {
	t.Helper()
	forms := []layout.Form{layout.NHWCForm, layout.NPY}
	var wait sync.WaitGroup
	for r := range readers {
		wait.Go(func() {
			for epoch := from + r; epoch < to; epoch += readers {
				for batch := range 16 {
					if err := readTiles(m, epoch, batch, side, forms[r%len(forms)]); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wait.Wait()
	return (to - from) * 16
}
