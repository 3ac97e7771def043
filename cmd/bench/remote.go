package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/machine"
)

// What `make bench-remote` runs (-only remote): the photos in an object store on this machine that
// answers late.

// longest is the longest of the delays of each request.
const longest = 100 * time.Millisecond

var delays = []time.Duration{0, 20 * time.Millisecond, longest}

// remoteFlags are those of all mounts that are compared: no sample is cached in memory.
func remoteFlags(more ...string) []string {
	return slices.Concat(crops64, []string{"--cache-size", "0"}, more)
}

// stored are the forms in which the store has the photos: a folder, and a tar.
var stored = []string{"photo", "photo.tar"}

// Figures of counted, of a turn.
var requests, size = figure{"requests", "", 1}, figure{"size", "MB", 1e-6}

// delayed is a contender for which the store answers late, by a given delay.
func (o *objectStore) delayed(delay time.Duration, c contender) contender {
	return c.before(func() { o.ask(delay) })
}

// counted is a contender for which the store answers late in its turns, but not before, and whose
// requests to the store are counted.
func (o *objectStore) counted(delay time.Duration, c contender) contender {
	start := c.start
	c.start = func() turn {
		t := start()
		return func() figures {
			o.ask(delay)
			f := t()
			asked := o.ask(delay)
			f[requests], f[size] = float64(asked.requests), float64(asked.bytes)
			return f
		}
	}
	return c
}

// remoteEpochs compares epochs from the store with those from the same folder on this machine,
// whose files are in the page cache, as those of the server are. If the daemon has processors of
// its own, this is as good as a store on another machine.
func remoteEpochs(b *bench) {
	o := b.indexed(stored...)
	all := must(machine.CurrentCPUs())
	b.epochsFrom(o, "store on the same processors", all, all)
	if half := len(all) / 2; half > 0 {
		b.epochsFrom(o, fmt.Sprintf("daemon alone on %d of %d processors", half, len(all)), all[:half], all[half:])
	}
}

// epochsFrom has the daemon on some processors, and the store and the reader on others.
func (b *bench) epochsFrom(o *objectStore, on string, daemon, others machine.CPUs) {
	// This uses up the answers that came while the daemon was paused, so that the usual number
	// of requests is under way when an epoch is measured.
	const ahead = 512 / peerBatch
	store := o.cmd.Process.Pid
	side := func(delay time.Duration, m mount) contender {
		m.pin, m.ahead = daemon, ahead
		return o.delayed(delay, b.training(m).on(others)).before(func() { pinProcess(store, others) })
	}
	sides := []contender{side(0, mount{dataset: b.photos().Root(), flags: remoteFlags("--io", "buffered")})}
	var whats []string
	for _, delay := range delays { // each has its own mount, because a mount adapts to its storage
		for _, name := range stored {
			sides = append(sides, side(delay, mount{dataset: o.url(name), flags: o.flags(remoteFlags()...), process: store}))
			whats = append(whats, fmt.Sprintf("    %s from S3, %s a request / local folder", name, delay))
		}
	}
	r := b.hold(on, 0, sides...)
	const own = "processor time an image %v us"
	b.print(r.row("local folder, page cache; "+on, rate, 0).noted(own, r.of(cost, 0)))
	for n, what := range whats {
		i := 1 + n
		ratio := r.ratio(what, rate, i, 0).atLeast(0.9)
		b.print(ratio.noted("%v images/s; "+own+", the server's %v", r.of(rate, i), r.of(cost, i), r.of(other, i)))
	}
}

// remoteTier compares epochs whose samples are all in the local cache with those from the same
// folder on the same disk.
func remoteTier(b *bench) {
	o, local := b.indexed("photo"), b.photos().Root()
	flags := o.flags(remoteFlags("--local-cache", filepath.Join(b.work, "tier"))...)
	r := b.hold("epochs from the local cache", 0,
		o.counted(longest, b.training(mount{dataset: o.url("photo"), flags: flags})), // what is not local shows
		b.training(mount{dataset: local, flags: remoteFlags()}),
		b.training(mount{dataset: local, flags: remoteFlags("--io", "buffered")}),
	)
	const what = "from the second epoch on, --local-cache / local folder, "
	disk := r.ratio(what+"from disk", rate, 0, 1).atLeast(0.97)
	b.print(disk.noted("%s; %v requests an epoch", disk.note, r.of(requests, 0)), r.ratio(what+"page cache", rate, 0, 2))
}

// remoteTraffic counts an epoch's requests to the store, and measures the memory that it takes.
func remoteTraffic(b *bench) {
	o := b.indexed(stored...)
	const limit = 256 // MiB, which only just suffices
	// Requests of the mount before it is read, and the least number of requests for what was
	// read.
	ofMount, needed := figure{"of the mount", "", 1}, figure{"needed", "", 1}
	neededSize := figure{"needed size", "MB", 1e-6}
	for _, name := range stored {
		for _, delay := range delays[1:] {
			flags := o.flags(remoteFlags("--memory-limit", fmt.Sprintf("%dMiB", limit))...)
			side := b.fresh(o.url(name), flags, func(m *daemon.Mount, f figures) {
				mounting := o.ask(delay)
				b.oneEpoch(m, f)
				epoch := o.idle(delay)
				f[ofMount] = float64(mounting.requests)
				f[requests], f[size] = float64(epoch.requests), float64(epoch.bytes)
				var document fusefs.Stats
				check(m.Document(".batchfs/stats.json", &document))
				for _, e := range document.Epochs { // the second one has begun
					f[needed], f[neededSize] = f[needed]+float64(e.Misses), f[neededSize]+float64(e.StorageBytes)
				}
			})
			what := fmt.Sprintf("%s, %s: ", name, delay)
			r := b.hold("an epoch of "+what, 1, o.delayed(delay, side))
			asked := measured(what+"requests / images", "x", r.of(requests, 0).over(r.of(needed, 0)))
			memory := measured(what+"peak memory of the daemon / --memory-limit", "x", r.of(peak, 0).times(1./limit)).atMost(1)
			b.print(
				asked.noted("%v for %v images, and %v of the mount", r.of(requests, 0), r.of(needed, 0), r.of(ofMount, 0)),
				ratio(what+"bytes / their sizes", "MB", r.of(size, 0), r.of(neededSize, 0)),
				memory.noted("%v MiB", r.of(peak, 0)),
			)
		}
	}
}

// remoteFirst measures the first batch after a mount in round trips: how much longer it takes if
// each request takes longer. Decoding and starting the daemon take the same time. A folder is
// listed, 1,000 objects a request, unless its index is said to be up to date.
func remoteFirst(b *bench) {
	o := b.indexed(stored...)
	kept := []string{"--index-at", filepath.Join(b.work, "index")}
	b.command(append([]string{"index", o.url("photo")}, o.flags(kept...)...)...)
	for _, start := range []struct {
		what, name string
		flags      []string
	}{{"photo", "photo", nil}, {"photo --index-at DIR", "photo", kept}, {"photo.tar", "photo.tar", nil}} {
		side := func(delay time.Duration) contender {
			return o.delayed(delay, b.fresh(o.url(start.name), o.flags(remoteFlags(start.flags...)...), openFirst))
		}
		r := b.hold("first batch of "+start.what, 0, side(0), side(longest))
		trips := func(what string, f figure) row {
			longer := r.of(f, 1).minus(r.of(f, 0)).times(1 / float64(longest.Milliseconds()))
			return measured(what, "trips", longer).noted("%v ms, %v at %s a request", r.of(f, 0), r.of(f, 1), longest)
		}
		b.print(trips(start.what+": mount and first batch", ended).atMost(3), trips("    its open alone", opened))
	}
}
