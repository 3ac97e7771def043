package fusefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// An open file of the form CUDA is the lease on memory of the GPU: the memory is used for another
// batch when the file is released. But when a process dies, its files may be closed before the
// driver stops its work on the GPU, which could still write there. So a file that a dying process
// releases is closed only when the process has ended.

// lease opens a file of the form CUDA for a thread. The file's content depends on when it was
// opened, so each open has its own, past the page cache.
func (f *filesystem) lease(ctx context.Context, n node, thread uint32) (*openFile, uint32, error) {
	by, err := openerOf(thread)
	if err != nil {
		return nil, 0, err
	}
	opened, err := f.src.Open(ctx, n.key, n.form)
	if err != nil {
		by.forget()
		return nil, 0, err
	}
	return &openFile{data: opened.Bytes(), file: opened, opener: by}, fuse.FOPEN_DIRECT_IO, nil
}

// An opener is the process that opened a file.
type opener struct {
	pid   int
	pidfd int // -1: it has ended, or is in a PID namespace that is not visible here
}

// openerOf finds the process of a thread.
func openerOf(thread uint32) (*opener, error) {
	pid, pidfd := processOf(thread), -1
	if pid != 0 {
		var err error
		if pidfd, err = unix.PidfdOpen(pid, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return nil, fmt.Errorf("watch process %d, which opens a batch on the GPU: %w", pid, err)
		}
	}
	return &opener{pid, pidfd}, nil
}

// processOf returns the id of a thread's process; 0: there is none.
func processOf(thread uint32) int {
	status, _ := statusOf(thread, os.ReadFile)
	pid, _ := strconv.Atoi(status["Tgid"])
	return pid
}

// outlived calls done: at once if the process is not dying, otherwise when it has ended.
func (o *opener) outlived(done func()) {
	if o.pidfd < 0 || !dying(o.pid) {
		o.forget()
		done()
		return
	}
	go func() {
		defer done()
		defer o.forget()
		awaitEnd(o.pidfd, -1)
	}()
}

func (o *opener) forget() {
	if o.pidfd >= 0 {
		_ = unix.Close(o.pidfd)
	}
}

// dying reports whether none of a process's threads has memory any more: all of them are ending,
// or have ended.
func dying(pid int) bool {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, t := range threads {
		size, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/statm", pid, t.Name()))
		if err == nil && !strings.HasPrefix(string(size), "0 ") {
			return false
		}
	}
	return true
}
