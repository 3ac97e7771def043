package integration

import (
	"strconv"
	"testing"

	"github.com/batchfs/batchfs/layout"
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
