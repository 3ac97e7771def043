package stress

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A condition is something that can be wrong with the machine or the dataset.
type condition int

const (
	damage0  condition = iota                  // damage to the first victim; the next values are for the others
	stormy   condition = iota - 1 + maxVictims // storage fails or stalls
	shortage                                   // resource limits below what a daemon needs
	adrift                                     // the mount or its daemon goes away
	conditions
)

// maxVictims is the maximum number of files damaged in one round.
const maxVictims = 3

// A weather is memory shared by all processes of a round: what is wrong at the moment, and
// what each client is doing. A condition counts how often it began and ended, so that a
// client can tell whether it held at any time during a call.
type weather struct{ words []uint64 }

const (
	clientsFrom = 64 // index of the first client's word
	clientWords = 8
)

// A tally counts something that a round does. Each client has a word for those up to checked.
type tally int

const (
	actions tally = iota
	opened
	noMemory  // opens that failed with ENOMEM
	failures  // other opens that failed as they had to or could
	retries   // opens retried because their failure came from the past
	checked   // bytes
	busySince // not counted: CLOCK_MONOTONIC in ns when the client's action began; 0: none
	events    // from here on, not of clients
	lost      // clients that never came back from a mapping whose daemon died
	tallies
)

func openWeather(path string) (*weather, error) {
	m, err := shareFile(path)
	return &weather{m}, err
}

const sharedBytes = 4096

// shareFile maps a file into memory that processes share. The first makes it.
func shareFile(path string) ([]uint64, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(sharedBytes); err != nil {
		return nil, err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, sharedBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&m[0])), len(m)/8), nil
}

func (w *weather) stop()         { atomic.StoreUint64(&w.words[0], 1) }
func (w *weather) stopped() bool { return atomic.LoadUint64(&w.words[0]) != 0 }

func (w *weather) begin(c condition) { atomic.AddUint64(&w.words[8+2*c], 1) }
func (w *weather) end(c condition)   { atomic.AddUint64(&w.words[9+2*c], 1) }

// begun returns how often a condition began.
func (w *weather) begun(c condition) uint64 { return atomic.LoadUint64(&w.words[8+2*c]) }

// A moment holds how often each condition had ended at some time.
type moment [conditions]uint64

func (w *weather) now() (m moment) {
	for c := range m {
		m[c] = atomic.LoadUint64(&w.words[9+2*c])
	}
	return m
}

// since reports whether a condition held at any time since m.
func (w *weather) since(m moment, c condition) bool { return w.begun(c) > m[c] }

func (w *weather) client(i int, t tally) *uint64 { return &w.words[clientsFrom+i*clientWords+int(t)] }

func (w *weather) add(i int, t tally, n int) { atomic.AddUint64(w.client(i, t), uint64(n)) }

// busy records that a client begins or ends an action.
func (w *weather) busy(i int, began int64) { atomic.StoreUint64(w.client(i, busySince), uint64(began)) }

func (w *weather) get(i int, t tally) uint64 { return atomic.LoadUint64(w.client(i, t)) }

// A report counts what rounds did.
type report [tallies]uint64

// report adds up the tallies of all clients.
func (w *weather) report() (r report) {
	for i := range roundClients {
		for t := range busySince {
			r[t] += w.get(i, t)
		}
	}
	return r
}

func (r *report) add(o report) {
	for t := range r {
		r[t] += o[t]
	}
}

func (r report) String() string {
	return fmt.Sprintf("%d actions, %d batches opened, %d out of memory, %d failed for other reasons, %d retries, %d MiB checked, %d events, %d clients lost with their daemon;",
		r[actions], r[opened], r[noMemory], r[failures], r[retries], r[checked]>>20, r[events], r[lost])
}

// monotonic is a time in ns that is the same for all processes.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}
