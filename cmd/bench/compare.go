package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// This file compares two commits: the program that is measured and one that is built from an
// older commit do the same work in turn, in one run, so that what the machine does to one of
// them it does to the other.

// notWorse is the ratio to the older commit below which a row is a loss rather than noise.
const notWorse = 0.98

// build builds batchfs as it was at a commit, in a working tree of its own.
func build(ctx context.Context, b *bench, commit string) (binary string, err error) {
	tree := filepath.Join(b.work, "older")
	b.progress.step("building "+commit, 0, 1)
	cmd := exec.CommandContext(ctx, "git", "worktree", "add", "--detach", tree, commit)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %s", commit, lastLine(out))
	}
	defer func() {
		// Without the context, so that an interrupted build leaves nothing behind.
		if out, e := exec.Command("git", "worktree", "remove", "--force", tree).CombinedOutput(); e != nil && err == nil {
			err = fmt.Errorf("the working tree of %s: %s", commit, lastLine(out))
		}
	}()
	binary = filepath.Join(b.work, "batchfs-older")
	cmd = exec.CommandContext(ctx, "scripts/build.sh", binary)
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %s", commit, lastLine(out))
	}
	return binary, nil
}

// compareCommits measures throughput, processor time, opens and memory of both commits.
func compareCommits(ctx context.Context, b *bench) (list []contest, err error) {
	if b.compare == "" {
		return nil, errors.New("needs a commit: -compare COMMIT")
	}
	older, err := build(ctx, b, b.compare)
	if err != nil {
		return nil, err
	}
	for _, set := range both { // not before it is known that the older one can be built
		if err := b.need(ctx, set(b)); err != nil {
			return nil, err
		}
	}
	jpegs, pngs := b.photos.Root(), b.cityscapes.Root()
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
		{"    from the disk", b.fromDisk, mount{dataset: jpegs, flags: cold(crops64)}},
		{"    from the disk, but in the page cache", b.fromPages, mount{dataset: jpegs, flags: cold(crops64)}},
		{"    with 8 workers", b.fromPages, mount{dataset: jpegs, flags: warm(crops64, []string{"--workers", "8"})}},
		{"    batches of 1", b.fromPages, mount{dataset: jpegs, flags: warm(shuffled(1, trainingCrop...))}},
		{"PNG 2048x1024 in its own size", b.fromPages, mount{dataset: pngs, flags: warm(large)}},
		{"    from the disk", b.fromDisk, mount{dataset: pngs, flags: cold(large)}},
	} {
		then := c.mount
		then.program = older
		sides := []contender{c.from(c.mount), c.from(then)}
		list = append(list, contest{what: c.what, contenders: sides, rows: func(r results) []row {
			soFar := func(what string, f figure) row { return ratio(what, f.unit, r.of(f, 0).last(), r.of(f, 1).last()) }
			return []row{
				r.ratio(c.what+": now / older", rate, 0, 1).atLeast(notWorse),
				r.ratio("    processor time an image", cost, 0, 1).atMost(1.02),
				soFar("    99th percentile of reading a batch", slow),
				soFar("    peak memory", peak).atMost(1.05),
			}
		}})
	}
	return append(list, b.compareReaders(older, jpegs)), nil
}
