package main

import (
	"context"
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

// A share says which processors the daemon has, and which the store and the reader.
type share struct {
	what           string
	daemon, others machine.CPUs
}

// shares are those of this machine. Where the daemon has processors of its own, the store is as
// good as on another machine.
func shares() ([]share, error) {
	all, err := machine.CurrentCPUs()
	list := []share{{"store on the same processors", all, all}}
	if half := len(all) / 2; half > 0 {
		list = append(list, share{fmt.Sprintf("daemon alone on %d of %d processors", half, len(all)), all[:half], all[half:]})
	}
	return list, err
}

// stored are what the photos are in the store: a folder, and a tar.
var stored = []string{"photo", "photo.tar"}

// delayed is a contender for which the store answers so late.
func (o *objectStore) delayed(delay time.Duration, c contender) contender {
	return c.before(func(context.Context) error {
		_, err := o.ask(delay)
		return err
	})
}

// remoteEpochs compares epochs from the store with those from the same folder on this machine,
// whose files are in the page cache, as those of the server are.
func remoteEpochs(ctx context.Context, b *bench) (list []contest, err error) {
	o, err := b.indexed(ctx, stored...)
	if err != nil {
		return nil, err
	}
	all, err := shares()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		// As many requests are under way as will be before an epoch is measured: answers that came
		// while the daemon was paused are used up.
		const ahead = 512 / peerBatch
		m := mount{dataset: b.photos.Root(), flags: remoteFlags("--io", "buffered"), pin: p.daemon, ahead: ahead}
		side := func(delay time.Duration, m mount) contender {
			return o.delayed(delay, b.training(m).on(p.others)).before(func(context.Context) error {
				return pinProcess(o.cmd.Process.Pid, p.others)
			})
		}
		sides := []contender{side(0, m)}
		m.process = o.cmd.Process.Pid
		var whats []string
		for _, delay := range delays { // a mount each, as it adapts to what it finds
			for _, name := range stored {
				m.dataset, m.flags = o.url(name), o.flags(remoteFlags()...)
				sides = append(sides, side(delay, m))
				whats = append(whats, fmt.Sprintf("    %s from S3, %s a request / local folder", name, delay))
			}
		}
		list = append(list, contest{what: p.what, contenders: sides, rows: func(r results) []row {
			const own = "processor time an image %v us"
			rows := []row{r.row("local folder, page cache; "+p.what, rate, 0).noted(own, r.of(cost, 0))}
			for n, what := range whats {
				i := 1 + n
				format := "%v images/s; " + own + ", the server's %v"
				ratio := r.ratio(what, rate, i, 0).atLeast(0.9)
				rows = append(rows, ratio.noted(format, r.of(rate, i), r.of(cost, i), r.of(other, i)))
			}
			return rows
		}})
	}
	return list, nil
}

// remoteTier compares epochs whose samples are all in the local cache with those from the same
// folder on the same disk.
func remoteTier(ctx context.Context, b *bench) ([]contest, error) {
	o, err := b.indexed(ctx, "photo")
	if err != nil {
		return nil, err
	}
	flags := o.flags(remoteFlags("--local-cache", filepath.Join(b.work, "tier"))...)
	tier := b.training(mount{dataset: o.url("photo"), flags: flags})
	sides := []contender{
		o.counted(longest, tier), // what is not local shows
		b.training(mount{dataset: b.photos.Root(), flags: remoteFlags()}),
		b.training(mount{dataset: b.photos.Root(), flags: remoteFlags("--io", "buffered")}),
	}
	return []contest{{what: "epochs from the local cache", contenders: sides, rows: func(r results) []row {
		const what = "from the second epoch on, --local-cache / local folder, "
		disk := r.ratio(what+"from disk", rate, 0, 1).atLeast(0.97)
		return []row{
			disk.noted("%s; %v requests an epoch", disk.note, r.of(requests, 0)),
			r.ratio(what+"page cache", rate, 0, 2),
		}
	}}}, nil
}

// Figures of counted, of a turn.
var requests, size = figure{"requests", "", 1}, figure{"size", "MB", 1e-6}

// counted is a contender for which the store answers late in its turns, but not before, and counts
// what it is asked.
func (o *objectStore) counted(delay time.Duration, c contender) contender {
	start := c.start
	c.start = func(ctx context.Context) (turn, error) {
		t, err := start(ctx)
		return func(ctx context.Context) (figures, error) {
			if _, err := o.ask(delay); err != nil {
				return nil, err
			}
			f, err := t(ctx)
			if err != nil {
				return nil, err
			}
			asked, err := o.ask(delay)
			f[requests], f[size] = float64(asked.requests), float64(asked.bytes)
			return f, err
		}, err
	}
	return c
}

// remoteTraffic counts what one epoch asks of the store, and what memory it takes.
func remoteTraffic(ctx context.Context, b *bench) (list []contest, err error) {
	o, err := b.indexed(ctx, stored...)
	if err != nil {
		return nil, err
	}
	const limit = 256 // MiB, which only just suffices
	// Those of the mount before it is read, and those that are the least for what was read.
	ofMount, needed := figure{"of the mount", "", 1}, figure{"needed", "", 1}
	neededSize := figure{"needed size", "MB", 1e-6}
	for _, name := range stored {
		for _, delay := range delays[1:] {
			flags := o.flags(remoteFlags("--memory-limit", fmt.Sprintf("%dMiB", limit))...)
			side := b.fresh(o.url(name), flags, func(ctx context.Context, m *daemon.Mount, f figures) error {
				mounting, err := o.ask(delay)
				if err != nil {
					return err
				}
				if err := oneEpoch(ctx, m, f); err != nil {
					return err
				}
				epoch, err := o.idle(delay)
				if err != nil {
					return err
				}
				f[ofMount] = float64(mounting.requests)
				f[requests], f[size] = float64(epoch.requests), float64(epoch.bytes)
				var document fusefs.Stats
				if err := m.Document(".batchfs/stats.json", &document); err != nil {
					return err
				}
				for _, e := range document.Epochs { // the second one has begun
					f[needed], f[neededSize] = f[needed]+float64(e.Misses), f[neededSize]+float64(e.StorageBytes)
				}
				return nil
			})
			side = o.delayed(delay, side)
			what := fmt.Sprintf("%s, %s: ", name, delay)
			sides := []contender{side}
			list = append(list, contest{what: "an epoch of " + what, contenders: sides, rounds: 1, rows: func(r results) []row {
				memory := measured(what+"peak memory of the daemon / --memory-limit", "x", r.of(peak, 0).times(1./limit)).atMost(1)
				asked := measured(what+"requests / images", "x", r.of(requests, 0).over(r.of(needed, 0)))
				return []row{
					asked.noted("%v for %v images, and %v of the mount", r.of(requests, 0), r.of(needed, 0), r.of(ofMount, 0)),
					ratio(what+"bytes / their sizes", "MB", r.of(size, 0), r.of(neededSize, 0)),
					memory.noted("%v MiB", r.of(peak, 0)),
				}
			}})
		}
	}
	return list, nil
}

// remoteFirst measures the first batch after a mount in round trips: what it takes longer where
// each request takes longer. Decoding and starting the daemon take the same time. A folder is
// listed, 1,000 objects a request, unless its index is said to be up to date.
func remoteFirst(ctx context.Context, b *bench) (list []contest, err error) {
	o, err := b.indexed(ctx, stored...)
	if err != nil {
		return nil, err
	}
	kept := []string{"--index-at", filepath.Join(b.work, "index")}
	if _, err = b.command(ctx, append([]string{"index", o.url("photo")}, o.flags(kept...)...)...); err != nil {
		return nil, err
	}
	for _, start := range []struct {
		what, name string
		flags      []string
	}{{"photo", "photo", nil}, {"photo --index-at DIR", "photo", kept}, {"photo.tar", "photo.tar", nil}} {
		var sides []contender
		for _, delay := range []time.Duration{0, longest} {
			opening := b.fresh(o.url(start.name), o.flags(remoteFlags(start.flags...)...), openFirst)
			sides = append(sides, o.delayed(delay, opening))
		}
		list = append(list, contest{what: "first batch of " + start.what, contenders: sides, rows: func(r results) []row {
			trips := func(what string, f figure) row {
				longer := r.of(f, 1).minus(r.of(f, 0)).times(1 / float64(longest.Milliseconds()))
				return measured(what, "trips", longer).noted("%v ms, %v at %s a request", r.of(f, 0), r.of(f, 1), longest)
			}
			return []row{trips(start.what+": mount and first batch", ended).atMost(3), trips("    its open alone", opened)}
		}})
	}
	return list, nil
}
