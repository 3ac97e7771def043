package fusefs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/layout"
)

// Options are the settings of a mount.
type Options struct {
	// AllowOther gives other users access. The kernel then checks the modes.
	AllowOther bool
	// UID and GID own every file. Modes of 0 mean 0444 and 0555.
	UID, GID          uint32
	FileMode, DirMode uint32
	// Epochs is how many epochs the directory of a shard lists; 0: all. All can be opened.
	Epochs int
	// OnlyLocal leaves out the shards that the engine's options say are not read here.
	OnlyLocal bool
	// List says which forms of a batch directories list. All forms can be opened, CUDA where the
	// engine has a GPU. None is there twice.
	List []layout.Form
	// ListNames are the names of the arrays in List, by the numbers of their forms.
	ListNames layout.Names
	// ListTargets makes directories list all forms of targets, too.
	ListTargets bool
	// ReadPath is how large forms are read: "passthrough", "direct", or otherwise the better of the
	// two that works.
	ReadPath string
	// FsName is the first column of mount and df, such as the dataset's name.
	FsName string
	// Config is the content of .batchfs/config.json.
	Config []byte
	// Logger may be nil.
	Logger *slog.Logger
}

// The values of Session.ReadPath.
const (
	passthrough = "passthrough"
	direct      = "direct"
)

// withDefaults sets defaults.
func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Config == nil {
		o.Config = []byte("{}\n")
	}
	o.FsName = cmp.Or(o.FsName, mountName)
	o.FileMode = cmp.Or(o.FileMode, 0o444) & 0o777
	o.DirMode = cmp.Or(o.DirMode, 0o555) & 0o777
	return o
}

// A source is the part of an *engine.Engine that a mount uses; its files are an interface.
type source interface {
	Catalog() *engine.Catalog
	ShardsHere() (from, to int)
	HasGPU() bool
	Remedy(error) string
	Open(context.Context, engine.Key, layout.Form) (file, error)
	Begin(engine.Key, layout.Form) (made bool)
	Describe(context.Context, engine.Key) (catalog.Description, error)
	Errors() []engine.BadSample
	Stats() engine.Stats
	Usage() (total, free, used int64)
	Reserve(bytes int64)
	ProbeFile() (fd int, closeFile func(), err error)
}

// A file is the part of an *engine.File that a mount uses: an open batch in one of its large forms.
type file interface {
	Bytes() []byte
	Fd() int
	Close()
}

type engineSource struct{ *engine.Engine }

func (s engineSource) Open(ctx context.Context, k engine.Key, f layout.Form) (file, error) {
	opened, err := s.Engine.Open(ctx, k, f)
	if err != nil {
		return nil, err // a nil *engine.File would be a non-nil file
	}
	return opened, nil
}

// Mount mounts an engine's batches at an empty directory and returns when they can be read.
// The caller must unmount, wait, and only then close the engine. Until then it must not
// touch anything below the mountpoint.
func Mount(mountpoint string, e *engine.Engine, o Options) (*Session, error) {
	return mount(mountpoint, engineSource{e}, o)
}

func mount(mountpoint string, src source, o Options) (*Session, error) {
	o = o.withDefaults()
	path, err := emptyDirectory(mountpoint)
	if err != nil {
		return nil, err
	}
	read, reason, err := chooseReadPath(o.ReadPath, src, o.Logger)
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
	m := &Session{path: path, reason: reason, fs: fs, done: make(chan struct{}), gone: make(chan struct{})}
	if m.connection, err = connect(fs, path, mountOptions(o, read, fs.request)); err != nil {
		return nil, fmt.Errorf("mount %s: %w", path, err)
	}
	fs.alive = m.alive
	// go-fuse's WaitMount is not used, because it opens a file on the mount from this
	// process. The handshake is done; requests are queued until Serve.
	m.raiseReadAhead(o.Logger)
	warnOfTimeouts(o.Logger)
	m.watch(o.Logger)
	go m.serve(o.Logger)
	o.Logger.Info("mounted", "mountpoint", path, "read_path", read)
	return m, nil
}

// chooseReadPath tries passthrough on a file like those of batches, unless direct is
// requested. reason says why the choice is not passthrough. If passthrough is requested but
// unavailable, it returns an error instead of silently being slower.
func chooseReadPath(wanted string, src source, log *slog.Logger) (path, reason string, err error) {
	if wanted == direct {
		return direct, "it was requested", nil
	}
	fd, closeFile, err := src.ProbeFile()
	if err != nil {
		err = fmt.Errorf("batch memory is not a file: %w", err)
	} else {
		err = tryPassthrough(fd)
		closeFile()
	}
	switch {
	case err == nil:
		return passthrough, "", nil
	case wanted == passthrough:
		return "", "", fmt.Errorf("passthrough is unavailable: %w", err)
	}
	log.Info("batches are read through the daemon", "reason", err)
	return direct, err.Error(), nil
}

const (
	// stackDepth allows batchfs to be stacked on tmpfs, and another file system (such as a
	// container's overlay) to be stacked on batchfs.
	stackDepth = 1
	// How many asynchronous requests the kernel may have in flight, such as read-ahead, and
	// how large a read may be. go-fuse has a buffer per request, so there are fewer of them if
	// batches are read through the daemon.
	background, smallRequest       = 64, 128 << 10
	directBackground, largeRequest = 16, 1 << 20
)

// requestSize is the largest read of a mount. A buffer takes at most 1/512 of the memory limit.
func requestSize(read string, limit int64) int {
	size := smallRequest
	for read == direct && size < largeRequest && int64(2*size) <= limit/512 {
		size *= 2
	}
	return size
}

// bufferBytes is the maximum size of go-fuse's buffers while batches are read through the
// daemon: one per asynchronous request, and one per goroutine that reads requests.
func bufferBytes(read string, request int) int64 {
	if read != direct {
		return 0
	}
	readers := min(max(runtime.GOMAXPROCS(0), 2), 16) + 1 // as in go-fuse
	return int64(readers+directBackground) * int64(request)
}

// mountOptions are go-fuse's options. The mount is made read-only (connect.go) and every
// method is too, because with passthrough a writer would reach the memory of the batch.
func mountOptions(o Options, read string, request int) *fuse.MountOptions {
	opts := &fuse.MountOptions{
		AllowOther:         o.AllowOther,
		MaxBackground:      background,
		MaxWrite:           request,
		MaxStackDepth:      stackDepth,
		FsName:             o.FsName,
		Name:               mountName,
		DisableReadDirPlus: true,
		DisableSplice:      true, // copying from memory is faster
		ExtraCapabilities:  fuse.CAP_DIRECT_IO_ALLOW_MMAP,
		Logger:             slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		PanicHandler: func(cause any) fuse.Status {
			o.Logger.Error("panic in a request", "cause", cause, "stack", string(debug.Stack()))
			return fuse.EIO
		},
	}
	if read == direct {
		opts.MaxBackground = directBackground
	}
	if o.AllowOther { // the kernel then has to check modes
		opts.Options = append(opts.Options, "default_permissions")
	}
	return opts
}

// raiseReadAhead raises the kernel's read-ahead in mapped files to one full request if they
// are read through the daemon. It affects this mount only, and needs root.
func (m *Session) raiseReadAhead(log *slog.Logger) {
	if m.ReadPath() != direct {
		return
	}
	kib := m.fs.request >> 10
	if err := os.WriteFile("/sys/class/bdi/"+m.mount.device+"/read_ahead_kb", []byte(strconv.Itoa(kib)), 0); err != nil {
		log.Debug("read-ahead stays as it is", "error", err)
	}
}
