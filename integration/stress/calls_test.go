package stress

import (
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"unsafe"

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

// A notice is the kernel's struct seccomp_notif: a system call waiting for an answer.
type notice struct {
	id    uint64
	tid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// A reply is the kernel's struct seccomp_notif_resp.
type reply struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// partInject execs a program whose system calls are decided by a supervisor. It sends the
// listener to the supervisor through descriptor 3.
func partInject(args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	// Until the supervisor has the listener, a watched call waits for ever, and any allocation
	// of memory may make one. So the message is ready before there is a listener to put into
	// it.
	data, rights := []byte{1}, unix.UnixRights(0)
	message := unix.Msghdr{Iov: &unix.Iovec{Base: &data[0]}, Iovlen: 1, Control: &rights[0]}
	message.Iov.SetLen(len(data))
	message.SetControllen(len(rights))
	runtime.LockOSThread() // the filter belongs to this thread, and to the program after exec
	listener, err := installFilter()
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	*(*int32)(unsafe.Pointer(&rights[unix.CmsgLen(0)])) = int32(listener)
	_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, 3, uintptr(unsafe.Pointer(&message)), 0)
	runtime.KeepAlive(&message)
	if errno != 0 {
		return errno
	}
	unix.CloseOnExec(3)
	unix.CloseOnExec(listener)
	return unix.Exec(path, args, os.Environ())
}

// installFilter makes this thread's watched calls wait for answers.
func installFilter() (listener int, err error) {
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}}
	for i, call := range faultyCalls {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(len(faultyCalls) - i), K: uint32(call.nr)})
	}
	program = append(program,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// Go's own signals must not restart a call that waits for its answer.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// A supervisor answers a daemon's calls: it lets all of them pass except one.
type supervisor struct {
	listener int
	names    *symbols

	mu     sync.Mutex
	counts map[*faultyCall]int // calls of each kind; nil: not counting
	call   *faultyCall         // the kind of which one fails; nil: none
	at     int                 // the number of the call that fails
	errno  unix.Errno          // its error
	hit    bool
	ended  chan struct{}
}

// supervise starts a program under a supervisor that counts from the first call.
func supervise(cmd *exec.Cmd, names *symbols, work string, first func(*supervisor)) (*supervisor, *daemon, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(ends[1]), "supervisor")
	defer unix.Close(ends[0])
	cmd.ExtraFiles = []*os.File{theirs}
	s := &supervisor{names: names, listener: -1, ended: make(chan struct{})}
	first(s)
	go func() {
		defer close(s.ended)
		if _, s.listener, err = receive(ends[0]); err == nil {
			s.serve()
			unix.Close(s.listener)
		}
	}()
	d, startErr := start(cmd, work)
	theirs.Close()
	if startErr != nil {
		_ = unix.Shutdown(ends[0], unix.SHUT_RDWR) // in case it never sent the listener
		<-s.ended
	}
	return s, d, startErr
}

// serve answers calls until the program ends.
func (s *supervisor) serve() {
	for {
		poll := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err == unix.EINTR {
			continue
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return // hung up: the program has ended
		}
		var n notice
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))); errno != 0 {
			continue // the caller was killed
		}
		r := reply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if errno := s.decide(&n); errno != 0 {
			r.flags, r.errno = 0, -int32(errno)
		}
		for { // a signal to this process must not lose the answer
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r)))
			if errno != unix.EINTR {
				break
			}
		}
	}
}

func (s *supervisor) decide(n *notice) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		return 0
	}
	for _, call := range faultyCalls {
		if !call.is(n, s.names) {
			continue
		}
		s.counts[call]++
		if call == s.call && s.counts[call] == s.at {
			s.hit = true
			return s.errno
		}
	}
	return 0
}

// arm starts counting calls and makes the at-th of one kind fail; nil: none.
func (s *supervisor) arm(call *faultyCall, at int, errno unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts, s.call, s.at, s.errno, s.hit = map[*faultyCall]int{}, call, at, errno, false
}

// disarm stops that, and returns the counts and whether a call failed.
func (s *supervisor) disarm() (counts map[*faultyCall]int, hit bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts, s.counts = s.counts, nil
	return counts, s.hit
}
