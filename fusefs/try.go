package fusefs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// TryMount mounts a dataset of one pixel, below the directory for temporary files, and unmounts it:
// the only way to find out what works. It returns the mount's read path, and why that is not a
// better one.
func TryMount(ctx context.Context, memoryLimit int64) (readPath, reason string, err error) {
	dir, err := os.MkdirTemp("", "batchfs-doctor-")
	if err != nil {
		return "", "", fmt.Errorf("the directory for temporary files (TMPDIR): %w", err)
	}
	data, mnt := filepath.Join(dir, "data"), filepath.Join(dir, "mnt")
	// Remove them one by one, so that nothing is deleted through a mount that did not end.
	defer func() {
		err = errors.Join(err, os.RemoveAll(data), os.Remove(mnt), os.Remove(dir))
	}()
	err = errors.Join(os.Mkdir(data, 0o700), os.Mkdir(mnt, 0o700), os.WriteFile(filepath.Join(data, "pixel.ppm"), []byte("P5 1 1 255\n\x00"), 0o600))
	if err != nil {
		return "", "", err
	}
	quiet := slog.New(slog.DiscardHandler)
	ds, err := dataset.Open(ctx, data, dataset.Options{Workers: 1, Prober: sample.Probe, Logger: quiet})
	if err != nil {
		return "", "", err
	}
	defer ds.Close()
	e, err := engine.New(ds, engine.Options{
		Options: catalog.Options{
			Config: shard.Config{Shards: 1, BatchSize: 1, PadLastBatch: true}, Epochs: 1, Decoding: decode.Options{MaxPixels: 1},
		},
		Workers: 1, BatchWorkers: 1, MemoryLimit: memoryLimit, Logger: quiet,
	})
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	m, err := Mount(mnt, e, Options{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), ReadPath: "auto", Logger: quiet})
	if err != nil {
		return "", "", err
	}
	if err := m.Unmount(); err != nil {
		return "", "", errors.Join(err, m.Detach())
	}
	return m.ReadPath(), m.Reason(), nil
}
