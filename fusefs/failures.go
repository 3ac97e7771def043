package fusefs

import (
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/engine"
)

// errorAttribute is the extended attribute of a batch's files that says why the batch last could
// not be opened: a Failure as JSON. A batch that never failed has none.
const errorAttribute = "user.batchfs.error"

// A Failure says why a batch could not be opened.
type Failure struct {
	Time   time.Time `json:"time,omitzero"`
	Error  string    `json:"error"` // EIO, ENOMEM or EFBIG
	Reason string    `json:"reason"`
	Hint   string    `json:"hint,omitempty"` // what to do; empty if a file of the dataset is at fault
}

const (
	maxFailures   = 256  // batches whose last failure is remembered
	failureLength = 1024 // longest reason, in bytes
)

// failures holds the errors of the batches that failed last. It is safe for concurrent use.
type failures struct {
	mu    sync.Mutex
	byKey map[engine.Key]string
	keys  []engine.Key // oldest first
}

// remember keeps the error of an open, unless the caller or the mount's end caused it.
func (f *failures) remember(k engine.Key, err error, remedy func(error) string) {
	st, _ := status(err)
	errno := syscall.Errno(st)
	if !slices.Contains([]syscall.Errno{unix.EIO, unix.ENOMEM, unix.EFBIG}, errno) {
		return
	}
	text := document(Failure{time.Now(), unix.ErrnoName(errno), shortened(err.Error(), failureLength), remedy(err)})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byKey == nil {
		f.byKey = map[engine.Key]string{}
	}
	f.keys = append(slices.DeleteFunc(f.keys, func(other engine.Key) bool { return other == k }), k)
	if len(f.keys) > maxFailures {
		delete(f.byKey, f.keys[0])
		f.keys = slices.Delete(f.keys, 0, 1)
	}
	f.byKey[k] = string(text)
}

// last returns the last failure of a batch as JSON; "" if there was none, or if it has been
// forgotten.
func (f *failures) last(k engine.Key) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byKey[k]
}
