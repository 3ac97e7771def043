package stress

import (
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
	weatherBytes = 4096
	clientsFrom  = 64 // index of the first client's word
	clientWords  = 8
	maxClients   = (weatherBytes/8 - clientsFrom) / clientWords
)

// A tally is a word of a client's part.
type tally int

const (
	busySince tally = iota // CLOCK_MONOTONIC in ns when its action began; 0: none
	actions
	opened
	noMemory // opens that failed with ENOMEM
	failures // other opens that failed as they had to or could
	retries  // opens retried because their failure came from the past
	checked  // bytes
)

func newWeather(path string) (*weather, error) {
	if err := os.WriteFile(path, make([]byte, weatherBytes), 0o600); err != nil {
		return nil, err
	}
	return openWeather(path)
}

func openWeather(path string) (*weather, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, weatherBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &weather{unsafe.Slice((*uint64)(unsafe.Pointer(&m[0])), weatherBytes/8)}, nil
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

// sum adds up a tally over all clients.
func (w *weather) sum(t tally) (n uint64) {
	for i := range maxClients {
		n += w.get(i, t)
	}
	return n
}

// monotonic is a time in ns that is the same for all processes.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}
