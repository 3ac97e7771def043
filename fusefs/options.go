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
	// AllowOther gives other users access. The kernel then checks the modes.
	AllowOther bool
	// UID and GID own every file. Modes of 0 mean 0444 and 0555.
	UID, GID          uint32
	FileMode, DirMode uint32
	// List says which forms of a batch directories list. All forms can be opened.
	List []layout.Form
	// ReadPath is how large forms are read: "auto" (also ""), "passthrough" or "direct".
	ReadPath string
	// FsName is the first column of mount and df, such as the dataset's name.
	FsName string
	// Config is the content of .batchfs/config.json.
	Config []byte
	// Logger may be nil.
	Logger *slog.Logger
}

// withDefaults sets defaults and rejects invalid options.
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
	// stackDepth allows batchfs to be stacked on tmpfs, and another file system (such as a
	// container's overlay) to be stacked on batchfs.
	stackDepth = 1
	// background is how many asynchronous requests the kernel may have in flight, such as
	// read-ahead of mapped files.
	background = 64
	// smallRequest is the largest read if the daemon serves documents only.
	smallRequest = 128 << 10
	// largeRequest is the largest read if batches are read through the daemon and memory
	// permits. go-fuse has a buffer of that size per request, so fewer requests may be in
	// flight (directBackground).
	largeRequest     = 1 << 20
	directBackground = 16
	// requestShare limits one such buffer to the memory limit divided by requestShare.
	requestShare = 512
)

// requestSize is the largest read of a mount with this memory limit.
func requestSize(read readPath, limit int64) int {
	size := smallRequest
	for read == direct && size < largeRequest && int64(2*size) <= limit/requestShare {
		size *= 2
	}
	return size
}

// bufferBytes is the maximum size of go-fuse's buffers while batches are read through the
// daemon: one per asynchronous request in flight, and one per goroutine that reads
// requests.
func bufferBytes(read readPath, request int) int64 {
	if read != direct {
		return 0
	}
	readers := min(max(runtime.GOMAXPROCS(0), 2), 16) + 1 // as in go-fuse
	return int64(readers+directBackground) * int64(request)
}

// mountOptions are go-fuse's options. The mount is made read-only (connection.go) and every
// method is too, because with passthrough a writer would reach the memory of the batch.
func mountOptions(o Options, read readPath, request int) *fuse.MountOptions {
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

// panicHandler turns a panic in a request into an error of that request.
func panicHandler(log *slog.Logger) func(any) fuse.Status {
	return func(cause any) fuse.Status {
		log.Error("panic in a request", "cause", cause, "stack", string(debug.Stack()))
		return fuse.EIO
	}
}
