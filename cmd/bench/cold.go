package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
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
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/parallel"
)

// This file measures epochs of a dataset that fits neither into the page cache nor into the
// cache of the mount: every sample is read from the disk in every epoch. Such an epoch should be
// as fast as the disk or the processors allow, whichever is slower.

// coldEpochs compares cold epochs with the lesser of two rates: that of the same epochs from the
// page cache, and that of the disk.
func coldEpochs(b *bench) {
	jpegs, mixed := b.photos().Root(), filepath.Join(b.work, "mixed") // of its photos, 4 of 10 are stored raw
	b.command("convert", "--raw-ratio", "0.4", jpegs, mixed)
	b.command("index", mixed)
	for _, c := range []struct {
		what, root string
		flags      []string
	}{
		{"JPEG, random-resized-crop 224", jpegs, crops64},
		{"JPEG in its own size", jpegs, shuffled(64, ownSize...)},
		{"PNG 2048x1024 in its own size", b.cityscapes().Root(), large},
		{"JPEG, 4 of 10 raw, in its own size", mixed, shuffled(64, ownSize...)},
	} {
		r := b.hold(c.what, 0,
			b.fromDisk(mount{dataset: c.root, flags: cold(c.flags)}),
			b.fromPages(mount{dataset: c.root, flags: warm(c.flags)}),
			disk(b, c.root),
		)
		pages, disk := r.of(rate, 1), r.of(rate, 2)
		ratio := measured("cold / lesser of page cache and disk: "+c.what, "x", r.of(rate, 0).over(pages.least(disk)))
		const note = "%v images/s; from the page cache %v, the disk alone %v"
		b.print(ratio.atLeast(0.95).noted(note, r.of(rate, 0), pages, disk))
	}
}

// disk reads the files below a directory past the page cache, with as many reads under way as keep
// a disk busy, while the bare C program keeps all processors busy, as decoding would.
func disk(b *bench, root string) contender {
	const underWay = 16
	return contender{start: func() turn {
		files := filesBelow(root)
		read := perSecond(len(files), func() {
			check(parallel.Each(b.ctx, underWay, len(files), nil, func(_ context.Context, items iter.Seq[int]) error {
				buf, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
				if err != nil {
					return err
				}
				defer unix.Munmap(buf)
				for i := range items {
					if err := readDirect(files[i], buf); err != nil {
						return err
					}
				}
				return nil
			}))
		})
		return func() figures {
			busy, stop := context.WithCancel(b.ctx)
			forever := append([]string{strconv.Itoa(runtime.NumCPU()), "1000000"}, b.photos().some(64)...)
			load := exec.CommandContext(busy, b.ceiling, forever...)
			check(load.Start())
			defer func() {
				stop()
				_ = load.Wait() // it was killed
			}()
			return read()
		}
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
func coldWorkers(b *bench) {
	for _, source := range []struct {
		name  string
		flags []string
		from  func(mount) contender
	}{{"page cache", warm(crops64), b.fromPages}, {"disk", cold(crops64), b.fromDisk}} {
		var sides []contender
		for _, n := range []string{"2", "4", "8", "16", "32"} {
			flags := slices.Concat(source.flags, []string{"--workers", n})
			sides = append(sides, source.from(mount{dataset: b.photos().Root(), flags: flags}))
		}
		r := b.hold("workers, "+source.name, 0, sides...)
		var all []series
		for i := range sides {
			all = append(all, r.of(rate, i))
		}
		byMedian := func(a, b series) int { return cmp.Compare(a.median(), b.median()) }
		what := "--workers 2 to 32, slowest / fastest, from the " + source.name
		ratio := measured(what, "x", slices.MinFunc(all, byMedian).over(slices.MaxFunc(all, byMedian))).atLeast(0.97)
		b.print(ratio.noted("%v images/s with 2, 4, 8, 16, 32", all))
	}
}

// coldThrottled compares cold epochs from a disk of limited bandwidth with the lesser of that
// bandwidth and the rate from the page cache. The mount limits itself, or a control group limits
// it.
func coldThrottled(b *bench) {
	root := b.photos().Root()
	sides := []contender{b.fromPages(mount{dataset: root, flags: warm(crops64)})}
	var whats []string
	var most []float64 // images a second
	for _, mb := range []int{50, 150, 600} {
		byItself := []string{"--max-read-bandwidth", fmt.Sprintf("%dMB", mb)}
		byGroup := func(g *cgroup) error { return g.limitReads(root, int64(mb)*1e6) }
		for by, m := range []mount{{flags: cold(crops64, byItself)}, {flags: cold(crops64), limit: byGroup}} {
			m.dataset = root
			side := b.fromDisk(m)
			side.optional = true
			sides = append(sides, side)
			limits := []string{byItself[0], "io.max"}
			whats = append(whats, fmt.Sprintf("a disk of %d MB/s (%s) / lesser of that and page cache", mb, limits[by]))
			most = append(most, float64(mb)*1e6/b.photos().bytes())
		}
	}
	r := b.hold("throttled", 0, sides...)
	for i, what := range whats {
		limit := r.of(rate, 0).each(func(pages float64) float64 { return min(pages, most[i]) })
		b.print(ratio(what, rate.unit, r.of(rate, 1+i), limit).atLeast(0.97))
	}
}

// coldQuota compares the rate of epochs with a part of the processors, by the quota of a control
// group, with that part of the rate with all processors.
func coldQuota(b *bench) {
	all := float64(runtime.NumCPU())
	quota := 0.75 * all
	m := mount{dataset: b.photos().Root(), flags: warm(crops64)}
	plain := b.fromPages(m)
	m.limit = func(g *cgroup) error { return g.limitCPU(quota) }
	limited := b.fromPages(m)
	limited.optional = true
	what := fmt.Sprintf("a quota of %v of %v processors / that part of the rate", quota, all)
	r := b.hold(what, 0, limited, plain)
	b.print(ratio(what, rate.unit, r.of(rate, 0), r.of(rate, 1).times(quota/all)).atLeast(0.95))
}

// coldMemory compares the peak memory of cold epochs with 32 workers and with 1, for batches of
// several sizes.
func coldMemory(b *bench) {
	for _, batch := range []int{1, 4, 32, 256} {
		side := func(workers string) contender {
			flags := cold(shuffled(batch, trainingCrop...), []string{"--workers", workers})
			return b.fresh(b.photos().Root(), flags, b.oneEpoch)
		}
		what := fmt.Sprintf("peak memory, batches of %d: 32 workers / 1", batch)
		r := b.hold(what, 1, side("32"), side("1"))
		b.print(r.ratio(what, peak, 0, 1).atMost(1.05))
	}
}

// coldSlow compares epochs from a file system where every other read is slow, as a network file
// system's may be, with epochs from the same file system without any delay.
func coldSlow(b *bench) {
	const delay = 20 * time.Millisecond
	side := func(delay time.Duration) contender {
		return contender{start: func() turn {
			dir := slowly(b, b.photos().Root(), delay)
			return b.training(mount{dataset: dir, flags: cold(crops64)}).start()
		}}
	}
	what := fmt.Sprintf("every other read takes %v / none does", delay)
	r := b.hold(what, 0, side(delay), side(0))
	b.print(r.ratio(what, rate, 0, 1).atLeast(0.95))
}

// slowly shows a folder in another one, where every other read is delayed.
func slowly(b *bench, root string, delay time.Duration) (dir string) {
	dir = must(os.MkdirTemp(b.work, "slow-"))
	shown := must(fs.NewLoopbackRoot(root))
	var reads atomic.Int64
	data := shown.(*fs.LoopbackNode).RootData
	data.NewNode = func(r *fs.LoopbackRoot, _ *fs.Inode, _ string, _ *syscall.Stat_t) fs.InodeEmbedder {
		return &slowNode{fs.LoopbackNode{RootData: r}, delay, &reads}
	}
	options := fuse.MountOptions{Options: []string{"ro"}, MaxBackground: 256, DirectMount: true}
	server, err := fs.Mount(dir, shown, &fs.Options{MountOptions: options})
	if err != nil {
		check(errors.Join(err, os.Remove(dir)))
	}
	b.later(server.Unmount)
	return dir
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
