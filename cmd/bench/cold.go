package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// This file measures epochs of a dataset that fits neither into the page cache nor into the
// cache of the mount: every sample is read from the disk in every epoch. Such an epoch should be
// as fast as the disk or the processors allow, whichever is slower.

// crops64 are the flags of most cold mounts.
var crops64 = shuffled(64, trainingCrop...)

// coldEpochs compares cold epochs with the lesser of two rates: that of the same epochs from the
// page cache, and that of the disk.
func coldEpochs(ctx context.Context, b *bench) (list []contest, err error) {
	mixed := filepath.Join(b.work, "mixed") // of its photos, 4 of 10 are stored raw
	b.progress.step("making raw copies", 0, 1)
	for _, args := range [][]string{{"convert", "--raw-ratio", "0.4", b.photos.Root(), mixed}, {"index", mixed}} {
		if _, err := b.command(ctx, args...); err != nil {
			return nil, err
		}
	}
	for _, c := range []struct {
		what, root string
		flags      []string
	}{
		{"JPEG, random-resized-crop 224", b.photos.Root(), crops64},
		{"JPEG in its own size", b.photos.Root(), shuffled(64, ownSize...)},
		{"PNG 2048x1024 in its own size", b.cityscapes.Root(), large},
		{"JPEG, 4 of 10 raw, in its own size", mixed, shuffled(64, ownSize...)},
	} {
		sides := []contender{
			b.fromDisk(mount{dataset: c.root, flags: cold(c.flags)}),
			b.fromPages(mount{dataset: c.root, flags: warm(c.flags)}),
			disk(b, c.root),
		}
		list = append(list, contest{what: c.what, contenders: sides, rows: func(r results) []row {
			pages, disk := r.of(rate, 1), r.of(rate, 2)
			ratio := measured("cold / lesser of page cache and disk: "+c.what, "x", r.of(rate, 0).over(pages.least(disk)))
			const note = "%v images/s; from the page cache %v, the disk alone %v"
			return []row{ratio.atLeast(0.95).noted(note, r.of(rate, 0), pages, disk)}
		}})
	}
	return list, nil
}

// disk reads the files below a directory past the page cache, with as many reads under way as keep
// a disk busy, while the bare C program keeps all processors busy, as decoding would.
func disk(b *bench, root string) contender {
	const underWay = 16
	return contender{start: func(context.Context) (turn, error) {
		var files []string
		if err := eachFile(root, func(path string) error { files = append(files, path); return nil }); err != nil {
			return nil, err
		}
		read := perSecond(len(files), func(ctx context.Context) error {
			var next atomic.Int64
			group, ctx := errgroup.WithContext(ctx)
			for range underWay {
				group.Go(func() error {
					buf, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
					if err != nil {
						return err
					}
					defer unix.Munmap(buf)
					for i := next.Add(1) - 1; i < int64(len(files)) && ctx.Err() == nil; i = next.Add(1) - 1 {
						if err := readDirect(files[i], buf); err != nil {
							return err
						}
					}
					return ctx.Err()
				})
			}
			return group.Wait()
		})
		return func(ctx context.Context) (figures, error) {
			busy, stop := context.WithCancel(ctx)
			forever := append([]string{strconv.Itoa(runtime.NumCPU()), "1000000"}, b.photos.some(64)...)
			load := exec.CommandContext(busy, b.ceiling, forever...)
			err := load.Start()
			defer func() {
				stop()
				_ = load.Wait() // it was killed
			}()
			if err != nil {
				return nil, err
			}
			return read(ctx)
		}, nil
	}}
}

// readDirect reads a file past the page cache. buf is aligned as the disk wants it.
func readDirect(path string, buf []byte) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		n, err := unix.Read(int(f.Fd()), buf)
		if err != nil {
			return fmt.Errorf("read %s past the page cache: %w", path, err)
		}
		if n < len(buf) {
			return nil
		}
	}
}

// coldWorkers compares mounts that differ only in --workers: more than there are processors
// should change nothing.
func coldWorkers(_ context.Context, b *bench) (list []contest, err error) {
	for _, source := range []struct {
		name  string
		flags []string
		from  func(mount) contender
	}{{"page cache", warm(crops64), b.fromPages}, {"disk", cold(crops64), b.fromDisk}} {
		var sides []contender
		for _, n := range []string{"2", "4", "8", "16", "32"} {
			flags := slices.Concat(source.flags, []string{"--workers", n})
			sides = append(sides, source.from(mount{dataset: b.photos.Root(), flags: flags}))
		}
		list = append(list, contest{what: "workers, " + source.name, contenders: sides, rows: func(r results) []row {
			var all []series
			for i := range sides {
				all = append(all, r.of(rate, i))
			}
			bySpeed := slices.Clone(all)
			slices.SortFunc(bySpeed, func(a, b series) int { return cmp.Compare(a.median(), b.median()) })
			what := "--workers 2 to 32, slowest / fastest, from the " + source.name
			ratio := measured(what, "x", bySpeed[0].over(bySpeed[len(sides)-1])).atLeast(0.97)
			return []row{ratio.noted("%v images/s with 2, 4, 8, 16, 32", all)}
		}})
	}
	return list, nil
}

// coldThrottled compares cold epochs from a disk of limited bandwidth with the lesser of that and
// the rate from the page cache. The mount limits itself, or a control group limits it.
func coldThrottled(_ context.Context, b *bench) ([]contest, error) {
	root := b.photos.Root()
	sides := []contender{b.fromPages(mount{dataset: root, flags: warm(crops64)})}
	var rows []func(r results) row
	for _, mb := range []int{50, 150, 600} {
		byItself := []string{"--max-read-bandwidth", fmt.Sprintf("%dMB", mb)}
		byGroup := func(g *cgroup) error { return g.limitReads(root, int64(mb)*1e6) }
		most := float64(mb) * 1e6 / b.photos.bytes() // images a second
		for by, m := range []mount{{flags: cold(crops64, byItself)}, {flags: cold(crops64), limit: byGroup}} {
			limits := []string{byItself[0], "io.max"}
			what := fmt.Sprintf("a disk of %d MB/s (%s) / lesser of that and page cache", mb, limits[by])
			m.dataset = root
			i, side := len(sides), b.fromDisk(m)
			side.optional = true
			sides = append(sides, side)
			rows = append(rows, func(r results) row {
				limit := r.of(rate, 0).each(func(pages float64) float64 { return min(pages, most) })
				return ratio(what, rate.unit, r.of(rate, i), limit).atLeast(0.97)
			})
		}
	}
	return []contest{{what: "throttled", contenders: sides, rows: func(r results) (all []row) {
		for _, of := range rows {
			all = append(all, of(r))
		}
		return all
	}}}, nil
}

// coldQuota compares epochs with a part of the processors, by the quota of a control group, with
// that part of the rate with all of them.
func coldQuota(_ context.Context, b *bench) ([]contest, error) {
	all := float64(runtime.NumCPU())
	quota := 0.75 * all
	m := mount{dataset: b.photos.Root(), flags: warm(crops64)}
	plain := b.fromPages(m)
	m.limit = func(g *cgroup) error { return g.limitCPU(quota) }
	limited := b.fromPages(m)
	limited.optional = true
	what := fmt.Sprintf("a quota of %v of %v processors / that part of the rate", quota, all)
	return []contest{{what: what, contenders: []contender{limited, plain}, rows: func(r results) []row {
		return []row{ratio(what, rate.unit, r.of(rate, 0), r.of(rate, 1).times(quota/all)).atLeast(0.95)}
	}}}, nil
}

// coldMemory compares the peak memory of cold epochs with 32 workers and with 1, for batches of
// several sizes.
func coldMemory(_ context.Context, b *bench) (list []contest, err error) {
	for _, batch := range []int{1, 4, 32, 256} {
		var sides []contender
		for _, workers := range []string{"32", "1"} {
			flags := cold(shuffled(batch, trainingCrop...), []string{"--workers", workers})
			sides = append(sides, b.fresh(b.photos.Root(), flags, oneEpoch))
		}
		what := fmt.Sprintf("peak memory, batches of %d: 32 workers / 1", batch)
		list = append(list, contest{what: what, contenders: sides, rounds: 1, rows: func(r results) []row {
			return []row{r.ratio(what, peak, 0, 1).atMost(1.05)}
		}})
	}
	return list, nil
}

// coldSlow compares epochs from a file system where every other read is slow, as that of a network
// may be, with those from the same one without any delay.
func coldSlow(_ context.Context, b *bench) ([]contest, error) {
	const delay = 20 * time.Millisecond
	side := func(delay time.Duration) contender {
		return contender{start: func(ctx context.Context) (turn, error) {
			dir, err := slowly(b, b.photos.Root(), delay)
			if err != nil {
				return nil, err
			}
			return b.training(mount{dataset: dir, flags: cold(crops64)}).start(ctx)
		}}
	}
	what := fmt.Sprintf("every other read takes %v / none does", delay)
	return []contest{{what: what, contenders: []contender{side(delay), side(0)}, rows: func(r results) []row {
		return []row{r.ratio(what, rate, 0, 1).atLeast(0.95)}
	}}}, nil
}

// slowly shows a folder in another one, where every other read is delayed.
func slowly(b *bench, root string, delay time.Duration) (dir string, err error) {
	if dir, err = os.MkdirTemp(b.work, "slow-"); err != nil {
		return "", err
	}
	shown, err := fs.NewLoopbackRoot(root)
	if err != nil {
		return "", err
	}
	var reads atomic.Int64
	data := shown.(*fs.LoopbackNode).RootData
	data.NewNode = func(r *fs.LoopbackRoot, _ *fs.Inode, _ string, _ *syscall.Stat_t) fs.InodeEmbedder {
		return &slowNode{fs.LoopbackNode{RootData: r}, delay, &reads}
	}
	options := fuse.MountOptions{Options: []string{"ro"}, MaxBackground: 256, DirectMount: true}
	server, err := fs.Mount(dir, shown, &fs.Options{MountOptions: options})
	if err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	b.later(server.Unmount)
	return dir, nil
}

// A slowNode delays every other read.
type slowNode struct {
	fs.LoopbackNode
	delay time.Duration
	reads *atomic.Int64
}

// Read reads from the file that is shown.
func (n *slowNode) Read(ctx context.Context, f fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if n.reads.Add(1)%2 == 0 {
		time.Sleep(n.delay)
	}
	return f.(fs.FileReader).Read(ctx, dest, off)
}
