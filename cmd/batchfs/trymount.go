package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/shard"
)

// mountingFinding is the finding that decides doctor's exit status.
const mountingFinding = "mounting"

// tryMount mounts a dataset of one pixel: the only way to find out what works.
func (c *console) tryMount(ctx context.Context) []finding {
	readPath, reason, err := c.onePixelMount(ctx)
	if err != nil {
		advice := mountAdvice
		if deviceAdvice() != "" {
			advice = "" // already included
		}
		return []finding{poor(mountingFinding, err.Error(), advice), poor("passthrough", "not tested, since mounting failed", "")}
	}
	mounted := good(mountingFinding, "a test mount worked")
	if readPath == "passthrough" {
		return []finding{mounted, good("passthrough", "reads and maps bypass the daemon")}
	}
	return []finding{mounted, poor("passthrough", "unavailable, reads go through the daemon: "+reason,
		"needs Linux 6.9 and CAP_SYS_ADMIN: mount as root, with --allow-other for the others; in a container --cap-add SYS_ADMIN, without user namespaces")}
}

const mountAdvice = "mount as root, or, to mount as an ordinary user: sudo apt-get install fuse3; in a container: --cap-add SYS_ADMIN"

func (c *console) onePixelMount(ctx context.Context) (readPath, reason string, err error) {
	dir, err := os.MkdirTemp("", "batchfs-doctor-")
	if err != nil {
		return "", "", err
	}
	data, mnt := filepath.Join(dir, "data"), filepath.Join(dir, "mnt")
	// Remove them one by one, so that nothing is deleted through a mount that did not end.
	defer func() {
		err = errors.Join(err, os.RemoveAll(data), os.Remove(mnt), os.Remove(dir))
	}()
	if err := errors.Join(os.Mkdir(data, 0o700), os.Mkdir(mnt, 0o700), os.WriteFile(filepath.Join(data, "pixel.ppm"), []byte("P5 1 1 255\n\x00"), 0o600)); err != nil {
		return "", "", err
	}
	quiet := *c
	quiet.err, quiet.env = io.Discard, environment{}
	ds, err := quiet.openDataset(ctx, data, datasetOptions{workers: 1, log: discardLog()})
	if err != nil {
		return "", "", err
	}
	defer ds.Close()
	e, err := engine.New(ds, engine.Options{
		Config: shard.Config{Shards: 1, BatchSize: 1, PadLastBatch: true}, Epochs: 1, Decoding: decode.Options{MaxPixels: 1},
		Workers: 1, BatchWorkers: 1, MemoryLimit: c.machine.defaultMemoryLimit(), Logger: discardLog(),
	})
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	m, err := fusefs.Mount(mnt, e, temporaryTree("auto"))
	if err != nil {
		return "", "", err
	}
	defer c.signals.own(m)()
	if err := m.Unmount(); err != nil {
		return "", "", errors.Join(err, m.Detach())
	}
	return m.ReadPath(), m.Reason(), nil
}

// temporaryTree is for mounts that a command makes for itself and removes again.
func temporaryTree(readPath string) fusefs.Options {
	return fusefs.Options{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), ReadPath: readPath, Logger: discardLog()}
}
