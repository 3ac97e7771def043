package fusefs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/batchfs/batchfs/engine"
)

// Mount mounts an engine's batches at an empty directory and returns when they can be read.
// The caller must unmount, wait, and only then close the engine. Until then it must not
// touch anything below the mountpoint.
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
	total, _, _ := src.Usage()
	fs.request = requestSize(read, total)
	src.Reserve(bufferBytes(read, fs.request))
	m := &Session{path: path, read: read, reason: reason, fs: fs, done: make(chan struct{}), gone: make(chan struct{})}
	if m.connection, err = connect(fs, path, o, mountOptions(o, read, fs.request)); err != nil {
		return nil, fmt.Errorf("mount %s: %w", path, err)
	}
	fs.alive = m.alive
	// go-fuse's WaitMount is not used, because it opens a file on the mount from this
	// process. The handshake is done; requests are queued until Serve.
	m.raiseReadAhead(o.Logger)
	warnOfTimeouts(o.Logger)
	go m.serve(o.Logger, m.watch(o.Logger))
	o.Logger.Info("mounted", "mountpoint", path, "read_path", string(read))
	return m, nil
}

// checkPrivileges detects the reasons for which fusermount would refuse to mount, whose
// message does not explain them.
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

// ErrRefused means that fusermount3 would not mount. It wrote the reason to standard error.
var ErrRefused = errors.New("fusermount3 refused, with a message of its own")

// ErrAllowOther means that this user may not use allow_other.
var ErrAllowOther = errors.New("allow_other needs the line user_allow_other in /etc/fuse.conf, or root")

// raiseReadAhead raises the kernel's read-ahead in mapped files to one full request if they
// are read through the daemon. It affects this mount only, and needs root.
func (m *Session) raiseReadAhead(log *slog.Logger) {
	if m.read != direct {
		return
	}
	kib := m.fs.request >> 10
	name := "/sys/class/bdi/" + m.mount.device + "/read_ahead_kb"
	if err := os.WriteFile(name, []byte(strconv.Itoa(kib)), 0); err != nil {
		log.Debug("read-ahead stays as it is", "error", err)
	}
}
