package stress

import (
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// A faultyCall is a kind of system call to fail, and with which errors.
type faultyCall struct {
	name   string
	nr     int32
	errnos []unix.Errno
	which  func(n *notice) bool // nil: all
}

// is reports whether a call is of this kind and made by Go code outside the runtime. (The
// runtime makes calls its own way, or through libc.)
func (c *faultyCall) is(n *notice, names *symbols) bool {
	if n.nr != c.nr || c.which != nil && !c.which(n) {
		return false
	}
	name, inside := names.at(n.ip)
	return inside && strings.Contains(name, "runtime/syscall") && strings.HasSuffix(name, "Syscall6")
}

// backingOpen is FUSE_DEV_IOC_BACKING_OPEN.
const backingOpen = 0x4010e501

// regular reports that a call's first argument is not a device, socket or the like.
func regular(n *notice) bool {
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.tid, int32(n.args[0])))
	return err == nil && strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "/dev/")
}

// faultyCalls lists all kinds of calls to fail. Calls made by Go's runtime itself are left
// out: it cannot do without them, and batchfs cannot fix that.
var faultyCalls = []*faultyCall{
	{name: "openat", nr: unix.SYS_OPENAT, errnos: []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EIO, unix.ESTALE, unix.EINTR}},
	{name: "read", nr: unix.SYS_READ, errnos: []unix.Errno{unix.EIO, unix.ENOMEM, unix.EINTR}, which: regular},
	{name: "pread64", nr: unix.SYS_PREAD64, errnos: []unix.Errno{unix.EIO, unix.ENOMEM, unix.ESTALE, unix.EINTR, unix.EAGAIN, unix.ETIMEDOUT}},
	{name: "fstat", nr: unix.SYS_FSTAT, errnos: []unix.Errno{unix.EIO, unix.ESTALE, unix.ENOMEM, unix.EINTR}},
	{name: "statx", nr: unix.SYS_STATX, errnos: []unix.Errno{unix.EIO, unix.ESTALE, unix.ENOMEM}},
	{name: "getdents64", nr: unix.SYS_GETDENTS64, errnos: []unix.Errno{unix.EIO, unix.ENOMEM, unix.ESTALE}},
	{name: "mmap", nr: unix.SYS_MMAP, errnos: []unix.Errno{unix.ENOMEM, unix.EAGAIN}},
	{name: "mremap", nr: unix.SYS_MREMAP, errnos: []unix.Errno{unix.ENOMEM}},
	{name: "ftruncate", nr: unix.SYS_FTRUNCATE, errnos: []unix.Errno{unix.ENOMEM, unix.ENOSPC, unix.EINTR, unix.EIO}},
	{name: "fallocate", nr: unix.SYS_FALLOCATE, errnos: []unix.Errno{unix.ENOSPC, unix.ENOMEM, unix.EINTR}},
	{name: "lease", nr: unix.SYS_FCNTL, errnos: []unix.Errno{unix.EAGAIN, unix.ENOMEM, unix.EINVAL}, which: func(n *notice) bool { return n.args[1] == unix.F_SETLEASE }},
	{name: "O_DIRECT", nr: unix.SYS_FCNTL, errnos: []unix.Errno{unix.EINVAL, unix.ENOMEM}, which: func(n *notice) bool { return n.args[1] == unix.F_SETFL }},
	{name: "mlock2", nr: unix.SYS_MLOCK2, errnos: []unix.Errno{unix.ENOMEM, unix.EAGAIN, unix.EPERM}},
	{name: "madvise", nr: unix.SYS_MADVISE, errnos: []unix.Errno{unix.ENOMEM, unix.EINVAL}},
	{name: "fadvise", nr: unix.SYS_FADVISE64, errnos: []unix.Errno{unix.EINVAL, unix.ENOMEM}},
	{name: "passthrough", nr: unix.SYS_IOCTL, errnos: []unix.Errno{unix.ENOMEM, unix.ENFILE, unix.EPERM, unix.EIO}, which: func(n *notice) bool { return uint32(n.args[1]) == backingOpen }},
	{name: "fsopen", nr: unix.SYS_FSOPEN, errnos: []unix.Errno{unix.ENOMEM, unix.EMFILE, unix.EPERM}},
	{name: "fsconfig", nr: unix.SYS_FSCONFIG, errnos: []unix.Errno{unix.ENOMEM}},
	{name: "fsmount", nr: unix.SYS_FSMOUNT, errnos: []unix.Errno{unix.ENOMEM, unix.EMFILE}},
}

// Symbols are the functions of the daemon's binary, by address.
type symbols struct {
	functions []elf.Symbol // sorted by address
	from, to  uint64       // range of its code
}

func readSymbols(binary string) (*symbols, error) {
	f, err := elf.Open(binary)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := f.Section(".text")
	if f.Type != elf.ET_EXEC || text == nil {
		return nil, fmt.Errorf("%s is not linked to fixed addresses: %v", binary, f.Type)
	}
	all, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	s := &symbols{from: text.Addr, to: text.Addr + text.Size}
	s.functions = slices.DeleteFunc(all, func(x elf.Symbol) bool { return elf.ST_TYPE(x.Info) != elf.STT_FUNC })
	slices.SortFunc(s.functions, func(a, b elf.Symbol) int { return cmp.Compare(a.Value, b.Value) })
	return s, nil
}

// at returns the function at an address, and whether the address is in the binary at all.
func (s *symbols) at(address uint64) (name string, inside bool) {
	if address < s.from || address >= s.to {
		return "", false
	}
	i := sort.Search(len(s.functions), func(i int) bool { return s.functions[i].Value > address })
	if i == 0 {
		return "", true
	}
	return s.functions[i-1].Name, true
}
