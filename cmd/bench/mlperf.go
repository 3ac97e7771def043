package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

// This file asks how many accelerators a mount keeps busy, each emulated by a reader that waits for
// as long as a training step takes: as MLPerf Storage does with its workload ResNet-50 on H100s.
// But it is not MLPerf, which does not decode what it reads, whose files are records of many
// images, and whose datasets are much larger than memory.
//
// A virtual machine gets memory from its host when it is first touched. Where this was written,
// that took 18 us for each page (12 GB with mmap: 56 s, and then 7 s), 0.5 s for each batch of this
// size, until there were as many batches as are held at a time.
const (
	h100Batch   = 400
	h100Step    = 224 * time.Millisecond
	h100Busy    = 0.9
	h100Batches = 48 // of each reader
	h100First   = 8  // of these do not count, because their memory is new
	mostH100s   = 16
)

// Figures of h100s: how many are kept busy, and how busy those and one more are.
var (
	busyH100s = figure{"H100s", "H100s", 1}
	busyShare = figure{"busy", "", 1}
	overShare = figure{"busy with one more", "", 1}
)

// h100s measures epochs of encoded and of packed images, decoded, cropped, flipped and normalised
// to float16.
func h100s(b *bench) {
	packed := filepath.Join(b.work, "packed photos")
	b.command("convert", "--packed-ratio", "1", b.photos().Root(), packed)
	r := b.hold("emulated H100s", 0, everMore(b, b.photos().Root(), ""), everMore(b, packed, ".bfs"))
	what := fmt.Sprintf("emulated H100s, %v %% busy, ", 100*h100Busy)
	for i, name := range []string{"encoded images, first epoch", "packed images, first epoch"} {
		busy := r.row(what+name, busyH100s, i)
		b.print(busy.noted("%v busy, one more: %v", r.of(busyShare, i), r.of(overShare, i)))
	}
	var peers []contender
	list := folderPeers(b, []int{runtime.NumCPU()}, []int{runtime.NumCPU()})
	for _, p := range list {
		p.batch = h100Batch
		peers = append(peers, oneH100(b, p))
	}
	r = b.hold("one emulated H100", min(b.rounds, 2), peers...)
	for i, p := range list {
		b.print(r.row("one emulated H100, busy with "+p.name, busyShare, i).noted("%s", p.what))
	}
}

// oneH100 is a peer whose consumer is one emulated accelerator. Its images are not normalised.
func oneH100(b *bench, p *peer) contender {
	return contender{optional: true, start: func() turn {
		c := b.bestOf(p, 1)
		c.pause = h100Step
		return func() figures {
			f := c.turn(h100Batches - 1)
			return figures{busyShare: f[rate] / h100Batch * h100Step.Seconds()}
		}
	}}
}

// everMore is a contender that mounts for more and more readers until they wait.
func everMore(b *bench, dir, end string) contender {
	p, made, links := b.photos(), 0, 0
	return ready(func() figures {
		f := figures{}
		for n := 1; n <= mostH100s; n++ {
			// No image has been read before: each mount has a dataset of its own, in which each
			// image is a file of its own, since what is learned of a file counts wherever its path
			// is.
			made++
			images := n * h100Batch * h100Batches
			link := func(i int) string { return filepath.Join("h100s", fmt.Sprintf("%06d.jpg%s", i, end)) }
			check(os.MkdirAll(filepath.Join(b.work, "h100s"), 0o755))
			for ; links < images; links++ {
				check(os.Link(filepath.Join(dir, p.Path(links%p.images)+end), filepath.Join(b.work, link(links))))
			}
			path := filepath.Join(b.work, fmt.Sprintf("h100s%s-%d.csv", end, made))
			b.manifestOf(path, "path", images, link)
			busy := busyReaders(b, path, n)
			if f[overShare] = busy; busy < h100Busy {
				break
			}
			f[busyH100s], f[busyShare] = float64(n), busy
		}
		return f
	})
}

// busyReaders is the least share of its time that any of n readers did not wait for batches.
func busyReaders(b *bench, dataset string, n int) (least float64) {
	least = 1
	flags := append(warm(shuffled(h100Batch, trainingCrop...), asHalf), "--shards", strconv.Itoa(n))
	check(b.within(func() {
		all := readersOf(b.mount(b.batchfs, dataset, flags), n)
		for _, r := range all {
			r.pause = h100Step
		}
		b.readAtOnce(all, func(batches int, _ time.Duration) bool { return batches >= h100Batches })
		for _, r := range all {
			least = min(least, r.busy(h100First))
		}
	}))
	return least
}
