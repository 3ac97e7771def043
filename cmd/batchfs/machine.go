package main

import (
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/batchfs/batchfs/engine/headroom"
)

// machine is the part of the computer that a mount has to share, read from kernel files.
// Its root is a file system so that tests can substitute other machines.
type machine struct {
	files fs.FS
	cpus  int // CPUs this process may use
}

func thisMachine() machine {
	return machine{files: os.DirFS("/"), cpus: runtime.GOMAXPROCS(0)}
}

// addProcessors makes Go's scheduler run more goroutines at a time than there are CPUs. It
// counts a goroutine that is in C, where item workers nearly always are, or in a system call,
// where readers of requests are, until its monitor looks, up to 10 ms later. Without spare
// processors, a complete batch waited for that: an open took 50 ms instead of 37 with 2 CPUs.
// A GOMAXPROCS that the user set is left alone.
func (m machine) addProcessors(workers int) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2*m.cpus + workers)
	}
}

// host returns the machine's memory accounting.
func (m machine) host() *headroom.Host { return headroom.New(m.files) }

// defaultMemoryLimit is half of the machine's memory, since the training program needs the
// rest, divided among the mounts. It is at most half of the free memory.
func (m machine) defaultMemoryLimit() int64 { return m.host().Share().Limit }

// line reads a kernel file that holds one line; "" if there is none.
func (m machine) line(name string) string {
	text, err := fs.ReadFile(m.files, name)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first)
}

func (m machine) exists(name string) bool {
	_, err := fs.Stat(m.files, name)
	return err == nil
}
