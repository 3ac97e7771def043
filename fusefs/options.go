package fusefs

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/hanwen/go-fuse/v2/fuse"

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
	// smallRequest is the largest read when the daemon serves only documents.
	smallRequest = 128 << 10
	// largeRequest is the largest read when batches are read through the daemon and
	// there is memory for it: go-fuse has a buffer of that size for each request, and
	// fewer of those are under way then.
	largeRequest     = 1 << 20
	directBackground = 16
	// requestShare is the part of the memory limit that one such buffer may have.
	requestShare = 512
)

// requestSize is the largest read of a mount with so much memory.
func requestSize(read readPath, limit int64) int {
	size := smallRequest
	for read == direct && size < largeRequest && int64(2*size) <= limit/requestShare {
		size *= 2
	}
	return size
}

// bufferBytes is what go-fuse's buffers take at most while batches are read through
// the daemon: one for each request that the kernel has under way by itself, and one
// for each that waits to be read.
func bufferBytes(read readPath, request int) int64 {
	if read != direct {
		return 0
	}
	readers := min(max(runtime.GOMAXPROCS(0), 2), 16) + 1 // as go-fuse has them
	return int64(readers+directBackground) * int64(request)
}

// mountOptions are go-fuse's. Read-only is said twice, when the mount is made
// (connection.go) and in every method, because of passthrough: a writer would reach
// the memory of the batch itself.
func mountOptions(o Options, read readPath, request int) *fuse.MountOptions {
	opts := &fuse.MountOptions{
		AllowOther:         o.AllowOther,
		MaxBackground:      background,
		MaxWrite:           request,
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
		opts.MaxBackground = directBackground
	}
	if o.AllowOther {
		opts.Options = append(opts.Options, "default_permissions")
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
