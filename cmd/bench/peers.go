package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/throughput"
)

// A peer is an alternative to batchfs. It reads the same files and makes the same crops and
// batches, which a Python process consumes like those of batchfs. The best number of workers is
// found first.
type peer struct {
	name    string
	wanted  float64 // speedup of batchfs over it; none if 0
	packed  float64 // the same, for batchfs from the second epoch on
	script  string
	args    []string
	workers []int
	batch   int    // peerBatch if 0
	missing error  // why it cannot run
	what    string // its description of itself once it has started
}

const peerBatch = 64

// workers are the numbers of worker processes to try, and threads those of threads.
func workers() []int {
	n := runtime.NumCPU()
	return slices.Compact([]int{max(1, n-1), n, n + 1, 2 * n})
}

func threads() []int {
	n := runtime.NumCPU()
	return []int{n, n + 1, 2 * n}
}

// folderPeers are the peers that read folders, with the numbers of worker processes and of threads
// to try.
func folderPeers(b *bench, processes, threads []int) []*peer {
	dataset := []string{"--dataset", b.photos().Root()}
	return []*peer{
		{name: "PyTorch's DataLoader with Pillow", wanted: 5.5, packed: 10, script: "dataloader.py", workers: processes,
			args: append([]string{"--decoder", "pillow"}, dataset...)},
		{name: "PyTorch's DataLoader with torchvision's decoder", wanted: 5, script: "dataloader.py", workers: processes,
			args: append([]string{"--decoder", "torchvision"}, dataset...)},
		{name: "NVIDIA DALI on the CPU", wanted: 4, packed: 8, script: "dali.py", workers: threads, args: dataset},
	}
}

// peers measures batchfs and the peers.
func peers(b *bench) {
	list := folderPeers(b, workers(), threads())
	sides := twiceBeside(b, crops64, list)
	c := len(sides)
	r := b.hold("side by side", 0, append(sides, b.c(runtime.NumCPU(), b.photos().files))...)
	rows := []row{r.row("C: every file decoded in full, on all cores, and nothing else", rate, c)}
	rows = append(rows, besidePeers(r, "batchfs", list)...)
	rows = append(rows, r.ratio("batchfs / C", rate, 0, c), r.ratio("batchfs, cached and packed / C", rate, 1, c))
	memory := func(i int, name string) {
		rows = append(rows, r.row("memory of "+name+": PSS of all its processes", pss, i),
			r.row("and what they have in /dev/shm", shm, i))
	}
	memory(0, "batchfs")
	perRate := func(i int) series { return r.of(pss, i).over(r.of(rate, i)) }
	for i, p := range list {
		memory(2+i, p.name)
		rows = append(rows, measured("memory for an image a second: "+p.name+" / batchfs", "x", perRate(2+i).over(perRate(0))))
	}
	for i := range rows {
		rows[i].quiet = rows[i].rule == ""
	}
	b.print(rows...)
}

// targetPeers measures batchfs and peers that make batches of images with their targets.
func targetPeers(kind string) func(*bench) {
	return func(b *bench) {
		flags := annotate(b, b.photos(), kind)
		args := []string{"--dataset", b.photos().Root(), "--" + kind, flags[len(flags)-1]}
		list := []*peer{
			{name: "PyTorch's DataLoader with torchvision", script: "torchtargets.py", workers: workers(), args: args},
			{name: "NVIDIA DALI on the CPU", script: "dali.py", workers: threads(), args: args},
		}
		sides := twiceBeside(b, slices.Concat(crops64, flags), list, "--targets", kind)
		r := b.hold("images and "+kind, 0, sides...)
		b.print(besidePeers(r, "images and "+kind+": batchfs", list)...)
	}
}

// twiceBeside has batchfs without a cache, batchfs that keeps the photos packed, and peers. The
// first epochs, in which batchfs packs, do not count.
func twiceBeside(b *bench, flags []string, list []*peer, args ...string) []contender {
	p := b.photos()
	batches := max(p.images/peerBatch, 4*runtime.NumCPU())
	sides := sideBySide(b, p.Root(), warm(flags), list, batches, args...)
	packed := ownSide(b, p.Root(), kept(p, "packed", flags), 2*p.images/peerBatch, batches, args...)
	return slices.Insert(sides, 1, packed)
}

// besidePeers are the rates of twiceBeside, and their ratios.
func besidePeers(r results, name string, list []*peer) []row {
	const packed = ", cached and packed"
	rows := []row{r.row(name, rate, 0), r.row(name+packed, rate, 1)}
	for i, p := range list {
		rows = append(rows, r.row(p.name, rate, 2+i).noted("%s", p.what))
	}
	for i, p := range list {
		rows = append(rows, r.ratio(name+" / "+p.name, rate, 0, 2+i).atLeast(p.wanted),
			r.ratio(name+packed+" / "+p.name, rate, 1, 2+i).atLeast(p.packed))
	}
	return rows
}

// sideBySide has batchfs and its peers, each of which consumes this many batches in a turn.
func sideBySide(b *bench, dataset string, flags []string, list []*peer, batches int, args ...string) []contender {
	sides := []contender{ownSide(b, dataset, flags, 0, batches, args...)}
	for _, p := range list {
		sides = append(sides, contender{optional: true, start: func() turn {
			c := b.bestOf(p, batches/2)
			return func() (f figures) {
				if err := catch(func() { f = c.turn(batches) }); err != nil {
					check(fmt.Errorf("%s: %w", p.name, err))
				}
				return f
			}
		}})
	}
	return sides
}

// ownSide is batchfs as a contender. Some batches are consumed before the first turn.
func ownSide(b *bench, dataset string, flags []string, before, batches int, args ...string) contender {
	return contender{start: func() turn {
		m := b.mount(b.batchfs, dataset, flags)
		c := b.consume("mounted.py", append(slices.Clone(args), "--mount", m.Dir, "--ahead", strconv.Itoa(throughput.Ahead))...)
		c.mount = m
		if before > 0 {
			c.turn(before)
		}
		m.Pause()
		return func() figures { return c.turn(batches) }
	}}
}

// bestOf starts a peer with each number of workers and keeps the fastest. Numbers that fail
// are skipped; if all fail, the last error counts.
func (b *bench) bestOf(p *peer, batches int) (best *consumer) {
	check(p.missing)
	var most float64
	var failed error
	for _, workers := range p.workers {
		same := []string{"--workers", strconv.Itoa(workers), "--batch-size", strconv.Itoa(cmp.Or(p.batch, peerBatch)), "--size", "224"}
		var c *consumer
		var found figures
		err := catch(func() {
			c = b.consume(p.script, append(same, p.args...)...)
			found = c.turn(batches)
		})
		if failed = cmp.Or(err, failed); found[rate] > most {
			best, c, most = c, best, found[rate]
		}
		if c != nil {
			c.stop()
		}
	}
	if best == nil {
		check(failed)
	}
	p.what = best.what
	return best
}

// remotePeers measures batchfs and other loaders, each used with PyTorch's DataLoader. All read the
// same images from the store in every epoch; loaders of shards read what their own writers made.
// mountpoint-s3 is not among them, but s3torchconnector contains its client.
func remotePeers(b *bench) {
	o := b.indexed("photo")
	folder := filepath.Join(b.work, "rclone")
	noMount := rclone(b, o, folder)
	leftovers, _ := filepath.Glob(mosaicMemory)
	b.later(func() error { return removeNew(mosaicMemory, leftovers) })
	tars, noTars := pack(b, o, "wds")
	_, noMDS := pack(b, o, "mds")
	for _, delay := range delays[1:] {
		n := runtime.NumCPU()
		few, many := []int{n, 2 * n}, []int{8 * n} // where a worker waits for each image, fewer are slower
		if delay == longest {
			many = []int{16 * n}
		}
		tarsURL := fmt.Sprintf("%s/%s/wds/{000000..%06d}.tar", o.endpoint, o.bucket, tars-1)
		peers := []*peer{
			{name: "webdataset", missing: noTars, script: "wds.py", workers: few,
				args: []string{"--dataset", tarsURL}},
			{name: "mosaicml-streaming", missing: noMDS, script: "mosaic.py", workers: few,
				args: []string{"--dataset", o.url("mds"), "--endpoint", o.endpoint, "--local", b.work}},
			{name: "rclone mount", missing: noMount, script: "dataloader.py", workers: many,
				args: []string{"--dataset", folder, "--decoder", "torchvision"}},
			{name: "s3torchconnector", script: "connector.py", workers: many,
				args: []string{"--dataset", o.url("photo/"), "--endpoint", o.endpoint}},
		}
		batches := max(4, b.images/peerBatch/2) // it takes more to fill the queues of many workers
		sides := sideBySide(b, o.url("photo"), o.flags(remoteFlags()...), peers, batches)
		sides[0] = o.delayed(delay, sides[0])
		r := b.hold("side by side, "+delay.String(), min(b.rounds, 3), sides...)
		for i, p := range peers {
			ratio := r.ratio(fmt.Sprintf("batchfs / %s + DataLoader, %s", p.name, delay), rate, 0, 1+i).atLeast(3)
			b.print(ratio.noted("%s; %s", ratio.note, p.what))
		}
	}
}

// pack puts the photos into the bucket as shards and returns how many of them are tars, or why it
// cannot.
func pack(b *bench, o *objectStore, as string) (shards int, err error) {
	dir := filepath.Join(o.dir, as)
	out, err := b.script("pack.py", "--dataset", b.photos().Root(), "--as", as, "--out", dir).CombinedOutput()
	if err != nil {
		return 0, errors.New(lastLine(out))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	return len(files), err
}

// rclone mounts the folder of photos in the background until the end of the scenario, or says why
// it cannot.
func rclone(b *bench, o *objectStore, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(b.ctx, "rclone", "mount", ":s3:"+o.bucket+"/photo", dir, "--config", "", "--daemon",
		"--s3-provider", "Other", "--s3-env-auth", "--s3-endpoint", o.endpoint,
		"--read-only", "--no-modtime", "--dir-cache-time", "1h", "--attr-timeout", "1h")
	// Some versions fail if they are told of certificates, which are not needed here.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_CA_BUNDLE=") })
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return errors.New(lastLine(out))
	}
	if err == nil {
		b.later(func() error { return unix.Unmount(dir, unix.MNT_DETACH) })
	}
	return err
}

// mosaicMemory is what mosaicml-streaming leaves behind when it is killed.
const mosaicMemory = "/dev/shm/[0-9][0-9][0-9][0-9][0-9][0-9]_*"

// removeNew removes the files that match a pattern and did not exist before.
func removeNew(pattern string, before []string) (err error) {
	files, _ := filepath.Glob(pattern)
	for _, file := range files {
		if !slices.Contains(before, file) {
			err = errors.Join(err, os.Remove(file))
		}
	}
	return err
}
