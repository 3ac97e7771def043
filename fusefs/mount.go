package fusefs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/layout"
)

// Options are the settings of a mount.
type Options struct {
	// AllowOther lets other users in. The kernel then checks the modes.
	AllowOther bool
	// UID and GID own every file; the modes are 0444 and 0555 where they are 0.
	UID, GID          uint32
	FileMode, DirMode uint32
	// List says which forms of a batch directories show; all of them can be opened.
	List []layout.Form
	// ReadPath is how large forms are read: "auto" ("" is the same), "passthrough" or
	// "direct".
	ReadPath string
	// FsName is the first column of mount and df, such as the dataset's name.
	FsName string
	// Config is the content of .batchfs/config.json.
	Config []byte
	// Logger may be nil.
	Logger *slog.Logger
}

// withDefaults fills in what is not set, and refuses what cannot be.
func (o Options) withDefaults() (Options, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ReadPath == "" {
		o.ReadPath = string(auto)
	}
	if o.FsName == "" {
		o.FsName = mountName
	}
	if o.Config == nil {
		o.Config = []byte("{}\n")
	}
	seen := map[layout.Form]bool{}
	for _, f := range o.List {
		if int(f) >= len(layout.Forms()) || seen[f] {
			return o, fmt.Errorf("the list of forms must name each at most once, and %q breaks that", f)
		}
		seen[f] = true
	}
	return o, nil
}

const (
	// stackDepth lets batchfs be a layer over tmpfs, and one more file system (as an
	// overlay of a container) be a layer over batchfs.
	stackDepth = 1
	// background is how many requests the kernel may have under way by itself, as
	// for read-ahead of mapped files.
	background = 64
	// directRequest is the largest read when batches are read through the daemon;
	// smallRequest is enough when only documents are. Each reader of the device
	// holds a buffer of this size.
	directRequest = 1 << 20
	smallRequest  = 128 << 10
)

// A Session is one mount, from Mount to the end of Wait. Its methods are safe for
// concurrent use.
type Session struct {
	path   string // as the kernel lists it
	id     int    // the kernel's number of the mount, 0 if it could not be learnt
	read   readPath
	reason string
	fs     *filesystem
	server *fuse.Server
	done   chan struct{} // closed when the last request was answered

	unmounting sync.Mutex // go-fuse cannot be asked to unmount twice at once
}

// Mount mounts an engine's batches at an empty directory and returns when they can
// be read. The caller unmounts, waits, and closes the engine after that; until
// then it must not touch anything below the mountpoint.
func Mount(mountpoint string, e *engine.Engine, o Options) (*Session, error) {
	return mount(mountpoint, engineSource{e}, o)
}

func mount(mountpoint string, src source, o Options) (*Session, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := CheckMountpoint(mountpoint); err != nil {
		return nil, err
	}
	path, err := realPath(mountpoint)
	if err != nil {
		return nil, fmt.Errorf("mountpoint %s: %w", mountpoint, plainPathError(err))
	}
	if err := checkPrivileges(o); err != nil {
		return nil, err
	}
	read, reason, err := chooseReadPath(readPath(o.ReadPath), src, o.Logger)
	if err != nil {
		return nil, err
	}
	fs, err := newFilesystem(src, o, read)
	if err != nil {
		return nil, err
	}
	m := &Session{path: path, read: read, reason: reason, fs: fs, done: make(chan struct{})}
	if m.server, err = fuse.NewServer(fs, path, mountOptions(o, read)); err != nil {
		// A greeting that failed leaves a mount without a daemon.
		_, clearErr := Clear(path)
		return nil, errors.Join(fmt.Errorf("mount %s: %w", path, err), clearErr)
	}
	// go-fuse's WaitMount is left out on purpose: it opens a file on the mount, from
	// this process. The kernel has been greeted; its requests wait for Serve.
	m.identify(o.Logger)
	warnOfTimeouts(o.Logger)
	go m.serve(o.Logger)
	o.Logger.Info("mounted", "mountpoint", path, "read_path", string(read))
	return m, nil
}

// serve answers requests until the mount has ended.
func (m *Session) serve(log *slog.Logger) {
	defer close(m.done)
	m.server.Serve()
	if there, err := m.listed(); err == nil && there {
		// Somebody cut the connection, or the kernel did: what is left is a dead mount.
		log.Error("the kernel aborted the mount", "mountpoint", m.path)
		if err := unmount(m.path, true); err != nil {
			log.Error("the aborted mount could not be taken away", "error", err)
		}
	}
}

// checkPrivileges finds out what would otherwise be a riddle: why the program that
// mounts for users refuses.
func checkPrivileges(o Options) error {
	if privileged() {
		return nil
	}
	if _, err := findFusermount(); err != nil {
		return err
	}
	if o.AllowOther && !userAllowOther() {
		return ErrAllowOther
	}
	return nil
}

// ErrAllowOther means that this user may not let other users in.
var ErrAllowOther = errors.New("allow_other needs the line user_allow_other in /etc/fuse.conf, or root")

// mountOptions are go-fuse's. Read-only is said twice, here and in every method,
// because of passthrough: a writer would reach the memory of the batch itself.
func mountOptions(o Options, read readPath) *fuse.MountOptions {
	opts := &fuse.MountOptions{
		AllowOther:         o.AllowOther,
		MaxBackground:      background,
		MaxWrite:           smallRequest,
		MaxStackDepth:      stackDepth,
		FsName:             o.FsName,
		Name:               mountName,
		DisableReadDirPlus: true,
		DisableSplice:      true, // copies from memory are faster
		ExtraCapabilities:  fuse.CAP_DIRECT_IO_ALLOW_MMAP,
		Logger:             slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		PanicHandler:       panicHandler(o.Logger),
	}
	if read == direct {
		opts.MaxWrite = directRequest
	}
	if o.AllowOther {
		opts.Options = append(opts.Options, "default_permissions")
	}
	if privileged() {
		opts.DirectMountStrict = true
		opts.DirectMountFlags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	} else {
		opts.Options = append(opts.Options, "ro", "nosuid", "nodev", "noexec")
	}
	return opts
}

// panicHandler turns a bug in one request into an error of that request.
func panicHandler(log *slog.Logger) func(any) fuse.Status {
	return func(cause any) fuse.Status {
		log.Error("panic in a request", "cause", cause, "stack", string(debug.Stack()))
		return fuse.EIO
	}
}

// identify learns the kernel's number of the mount, so that Unmount cannot take
// away somebody else's, and lets the kernel read ahead in mapped files as far as
// one request goes, where they are read through the daemon.
func (m *Session) identify(log *slog.Logger) {
	entry, ok, err := mountAt(m.path)
	if err != nil || !ok || entry.fsType != fsType {
		log.Warn("the mount cannot be found among the mounts", "mountpoint", m.path, "error", err)
		return
	}
	m.id = entry.id
	if m.read == direct {
		if err := raiseReadAhead(entry.device); err != nil {
			log.Debug("read-ahead stays as it is", "error", err)
		}
	}
}

// raiseReadAhead is for the one mount only, and needs root.
func raiseReadAhead(device string) error {
	const kib = directRequest >> 10
	return os.WriteFile("/sys/class/bdi/"+device+"/read_ahead_kb", []byte(strconv.Itoa(kib)), 0)
}

// ReadPath is how large forms are read: "passthrough" or "direct".
func (m *Session) ReadPath() string { return string(m.read) }

// Reason says why ReadPath is not "passthrough"; empty when it is.
func (m *Session) Reason() string { return m.reason }

// Path is the mountpoint, absolute and without links.
func (m *Session) Path() string { return m.path }

// Wait returns when the mount has ended and nobody reads from it any more, whoever
// unmounted it.
func (m *Session) Wait() { <-m.done }

// Unmount ends the mount and waits for its last request. While somebody uses it
// the error wraps unix.EBUSY, and the mount lives on. A mount that has ended or
// been detached already is no error.
func (m *Session) Unmount() error {
	m.unmounting.Lock()
	defer m.unmounting.Unlock()
	if there, err := m.there(); err != nil || !there {
		return err
	}
	if err := m.server.Unmount(); err != nil {
		if there, _ := m.there(); !there { // somebody else was faster
			return nil
		}
		return unmountError(m.path, err)
	}
	<-m.done
	return nil
}

// unmountError keeps go-fuse's errno, or finds it in what fusermount wrote.
func unmountError(path string, err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return fmt.Errorf("unmount %s: %w", path, errno)
	}
	return fusermountError(path, err.Error(), err)
}

// Detach takes the mount out of sight at once. Those who use it can go on for as
// long as this process answers them; Wait returns when the last one is done.
func (m *Session) Detach() error {
	m.unmounting.Lock()
	defer m.unmounting.Unlock()
	if there, err := m.there(); err != nil || !there {
		return err
	}
	if err := unmount(m.path, true); err != nil {
		if there, _ := m.there(); !there {
			return nil
		}
		return err
	}
	return nil
}

// there reports whether the mount is still at its mountpoint. What somebody else
// mounted over it makes it busy.
func (m *Session) there() (bool, error) {
	select {
	case <-m.done:
		return false, nil
	default:
	}
	there, err := m.listed()
	if errors.Is(err, errUnlisted) {
		return true, nil // not known: the kernel will say
	}
	return there, err
}

// errUnlisted means that it is not known what is mounted.
var errUnlisted = errors.New("the mount could not be found when it was made")

// listed looks the mount up among all mounts.
func (m *Session) listed() (bool, error) {
	entries, err := mounts()
	if err != nil || m.id == 0 {
		return false, errUnlisted
	}
	for _, e := range entries {
		if e.id != m.id {
			continue
		}
		if top, ok := topMount(entries, m.path); ok && top.id != m.id {
			return true, fmt.Errorf("unmount %s: %s is mounted over it: %w", m.path, top.fsType, unix.EBUSY)
		}
		return true, nil
	}
	return false, nil
}
