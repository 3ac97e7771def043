package main

import (
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/batchfs/batchfs/headroom"
)

// machine is the part of the computer that a mount has to share, read from
// the kernel's files. Its root is a file system so that tests can show it
// other machines.
type machine struct {
	files fs.FS
	cpus  int // that this process may use
}

func thisMachine() machine {
	return machine{files: os.DirFS("/"), cpus: runtime.GOMAXPROCS(0)}
}

// host is the same machine as a place to have memory.
func (m machine) host() *headroom.Host { return headroom.New(m.files) }

// defaultMemoryLimit is half of what there is, since the training program needs the
// rest, and a part of that where there are other mounts.
func (m machine) defaultMemoryLimit() int64 { return m.host().Share().Limit }

// line reads a kernel file that holds one line, "" where it is not there.
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
