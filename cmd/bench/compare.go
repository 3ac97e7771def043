package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// This file compares two commits: the program that is measured and one that is built from an older
// commit do the same work in turn, in one run, so that a slowdown of the machine affects both.

// notWorse is the ratio to the older commit below which a row is a loss rather than noise.
const notWorse = 0.98

// build builds batchfs as it was at a commit, in a working tree of its own.
func build(b *bench, commit string) (binary string) {
	tree := filepath.Join(b.work, "older")
	if out, err := exec.CommandContext(b.ctx, "git", "worktree", "add", "--detach", tree, commit).CombinedOutput(); err != nil {
		check(fmt.Errorf("%s: %s", commit, lastLine(out)))
	}
	b.later(func() error {
		// This does not use the context, so that an interrupted build leaves nothing
		// behind.
		if out, err := exec.Command("git", "worktree", "remove", "--force", tree).CombinedOutput(); err != nil {
			return fmt.Errorf("the working tree of %s: %s", commit, lastLine(out))
		}
		return nil
	})
	binary = filepath.Join(b.work, "batchfs-older")
	cmd := exec.CommandContext(b.ctx, "scripts/build.sh", binary)
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		check(fmt.Errorf("building %s: %s", commit, lastLine(out)))
	}
	return binary
}

// compareCommits measures throughput, processor time, opens and memory of both commits.
func compareCommits(b *bench) {
	if b.compare == "" {
		check(errors.New("needs a commit: -compare COMMIT"))
	}
	older := build(b, b.compare)
	jpegs, pngs := b.photos().Root(), b.cityscapes().Root() // not before it is known that the older one can be built
	for _, c := range []struct {
		what string
		from func(mount) contender
		mount
	}{
		{"JPEG in its own size, mapped", b.fromPages, mount{dataset: jpegs, flags: warm(own)}},
		{"JPEG in its own size, by read", b.fromPages, mount{dataset: jpegs, flags: warm(own), read: byRead}},
		{"JPEG, random-resized-crop 224", b.fromPages, mount{dataset: jpegs, flags: warm(crops64)}},
		{"    without entry points", b.fromPages, mount{dataset: jpegs, flags: warm(crops64, withoutEntries)}},
		{"    as float16 NCHW, normalised", b.fromPages, mount{dataset: jpegs, flags: warm(crops64, asHalf)}},
		{"    as float32 NCHW, normalised", b.fromPages, mount{dataset: jpegs, flags: warm(crops64, asFloats)}},
		{"    from the disk", b.fromDisk, mount{dataset: jpegs, flags: cold(crops64)}},
		{"    from the disk, but in the page cache", b.fromPages, mount{dataset: jpegs, flags: cold(crops64)}},
		{"    with 8 workers", b.fromPages, mount{dataset: jpegs, flags: warm(crops64, []string{"--workers", "8"})}},
		{"    batches of 1", b.fromPages, mount{dataset: jpegs, flags: warm(shuffled(1, trainingCrop...))}},
		{"PNG 2048x1024 in its own size", b.fromPages, mount{dataset: pngs, flags: warm(large)}},
		{"    from the disk", b.fromDisk, mount{dataset: pngs, flags: cold(large)}},
	} {
		then := c.mount
		then.program = older
		r := b.hold(c.what, 0, c.from(c.mount), c.from(then))
		soFar := func(what string, f figure) row { return ratio(what, f.unit, r.of(f, 0).last(), r.of(f, 1).last()) }
		b.print(
			r.ratio(c.what+": now / older", rate, 0, 1).atLeast(notWorse),
			r.ratio("    processor time an image", cost, 0, 1).atMost(1.02),
			soFar("    99th percentile of reading a batch", slow),
			soFar("    peak memory", peak).atMost(1.05),
		)
	}
	o := b.indexed("photo")
	for _, delay := range delays {
		side := func(program string) contender {
			return o.delayed(delay, b.training(mount{dataset: o.url("photo"), flags: o.flags(remoteFlags()...), program: program}))
		}
		what := fmt.Sprintf("crops from a store on the same processors, %s a request: now / older", delay)
		r := b.hold(what, 0, side(""), side(older))
		b.print(r.ratio(what, rate, 0, 1).atLeast(notWorse), r.ratio("    processor time an image", cost, 0, 1).atMost(1.02))
	}
	const what = "8 readers of different speed"
	r := b.hold(what, 0, b.readers(b.batchfs, jpegs), b.readers(older, jpegs))
	b.print(
		r.ratio(what+": now / older", rate, 0, 1).atLeast(notWorse),
		r.ratio("    99th percentile of opening and reading a batch", slow, 0, 1).atMost(1.05),
		r.ratio("    what the reader that waits most has of its time", least, 0, 1).atLeast(notWorse),
	)
}

// least is the part of its time in which the reader with the longest waits did not wait.
var least = figure{"least", "of its time", 1}

// readers is a contender with readers of different speeds, each of which reads its own shard: a
// fast one must not take what a slow one has been promised. Its figures are rate, slow and least.
func (b *bench) readers(program, dataset string) contender {
	const (
		many    = 8
		slowest = 56 * time.Millisecond // what it does with each batch; the fastest one does nothing
		turnFor = 2 * time.Second
	)
	return contender{start: func() turn {
		m := b.mount(program, dataset, warm(shuffled(16, trainingCrop...), []string{"--shards", strconv.Itoa(many)}))
		all := readersOf(m, many)
		for i, r := range all {
			must(r.Take(b.ctx, r.Batches))
			r.pause = slowest * time.Duration(i) / (many - 1)
		}
		m.Pause()
		return func() figures {
			check(all[0].Turn(b.ctx, func() error {
				return catch(func() {
					b.readAtOnce(all, func(_ int, took time.Duration) bool { return took >= turnFor })
				})
			}))
			f := figures{least: 1}
			var waits []float64
			for _, r := range all {
				waits = slices.Concat(waits, r.waits)
				f[rate] += r.images() / turnFor.Seconds()
				if r.pause > 0 {
					f[least] = min(f[least], r.busy(0))
				}
			}
			f[slow] = quantile(waits, .99)
			return f
		}
	}}
}
