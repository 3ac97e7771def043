package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Other loaders, side by side with batchfs. All read the same images from the store in every epoch; those that want shards
// find what their own writers made. mountpoint-s3 is not among them; s3torchconnector contains its client.

// remotePeers measures batchfs and the loaders in turns.
func remotePeers(ctx context.Context, s *setup) (rows []row, err error) {
	o, err := s.indexed(ctx, "photo")
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(s.work, "rclone")
	mount := o.rclone(ctx, folder)
	if mount == nil {
		defer func() { err = errors.Join(err, exec.Command("fusermount3", "-u", "-z", folder).Run()) }()
	}
	tars, noTars := s.pack(ctx, o, "wds")
	_, noMDS := s.pack(ctx, o, "mds")
	for _, delay := range delays[1:] {
		n := runtime.NumCPU()
		few, many := []int{n, 2 * n}, []int{8 * n} // where a worker waits for each image, fewer are slower
		if delay == slow {
			many = []int{16 * n}
		}
		all := []loader{
			{noTars, "webdataset", "wds.py", few, []string{"--dataset", fmt.Sprintf("%s/%s/wds/{000000..%06d}.tar", o.endpoint, o.bucket, tars-1)}},
			{noMDS, "mosaicml-streaming", "mosaic.py", few, []string{"--dataset", o.url("mds"), "--endpoint", o.endpoint, "--local", s.work}},
			{mount, "rclone mount", "dataloader.py", many, []string{"--dataset", folder, "--decoder", "torchvision"}},
			{nil, "s3torchconnector", "connector.py", many, []string{"--dataset", o.url("photo/"), "--endpoint", o.endpoint}},
		}
		more, err := s.loaders(ctx, o, delay, all)
		rows = append(rows, more...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// A loader is used with PyTorch's DataLoader.
type loader struct {
	missing error // why it cannot run
	name    string
	script  string
	workers []int
	args    []string
}

// loaders compares batchfs with the loaders while the store answers so late.
func (s *setup) loaders(ctx context.Context, o *objectStore, delay time.Duration, all []loader) (rows []row, err error) {
	if err := o.setDelay(ctx, delay); err != nil {
		return nil, err
	}
	var list []peer
	for _, l := range all {
		p := peer{fmt.Sprintf("%s + DataLoader, %s", l.name, delay), 3, l.script, l.args, l.workers}
		if l.missing == nil {
			list = append(list, p)
		} else {
			rows = append(rows, row{what: "batchfs / " + p.name, skipped: l.missing.Error()})
		}
	}
	ours, err := s.startMounted(ctx, o.url("photo"), o.flags(remoteFlags()...))
	if err != nil {
		return rows, err
	}
	defer ours.mount.Unmount(ctx)
	defer ours.stop()
	before, _ := filepath.Glob(mosaicMemory)
	defer removeNew(mosaicMemory, before)
	batches := max(4, s.photos.images/peerBatch/2) // it takes more to fill the queues of many workers
	contenders, skipped, err := s.opponents(ctx, ours, list, batches/2)
	defer stopAll(contenders)
	if err != nil {
		return rows, err
	}
	rates, err := s.turns(ctx, "side by side, "+delay.String(), min(s.rounds, 3), consuming(contenders, batches)...)
	if err != nil {
		return rows, err
	}
	for i, c := range contenders[1:] {
		note := fmt.Sprintf("%.0f / %.0f images/s, %s", median(rates[0]), median(rates[1+i]), c.what)
		rows = append(rows, measured("batchfs / "+c.name, "x", ratios(rates[0], rates[1+i]), note).atLeast(c.wanted))
	}
	return append(rows, skipped...), nil
}

// mosaicMemory is what mosaicml-streaming leaves behind when it is killed.
const mosaicMemory = "/dev/shm/[0-9][0-9][0-9][0-9][0-9][0-9]_*"

// removeNew removes the files of a pattern that were not there before.
func removeNew(pattern string, before []string) {
	files, _ := filepath.Glob(pattern)
	for _, file := range files {
		if !slices.Contains(before, file) {
			_ = os.Remove(file)
		}
	}
}

// pack puts the photos into the bucket as shards and returns how many of them are tars, or why it cannot.
func (s *setup) pack(ctx context.Context, o *objectStore, as string) (shards int, err error) {
	s.progress.step("shards of "+as, 0, 1)
	dir := filepath.Join(o.dir, as)
	if out, err := s.script(ctx, "pack.py", "--dataset", s.photos.Root(), "--as", as, "--out", dir).CombinedOutput(); err != nil {
		return 0, errors.New(lastLine(out))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	return len(files), err
}

// rclone mounts the folder of photos in the background. It returns nil once that is done.
func (o *objectStore) rclone(ctx context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "rclone", "mount", ":s3:"+o.bucket+"/photo", dir, "--config", "", "--daemon",
		"--s3-provider", "Other", "--s3-env-auth", "--s3-endpoint", o.endpoint,
		"--read-only", "--no-modtime", "--dir-cache-time", "1h", "--attr-timeout", "1h")
	// Some versions fail if they are told of certificates, which are not needed here.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_CA_BUNDLE=") })
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return errors.New(lastLine(out))
	}
	return err
}
