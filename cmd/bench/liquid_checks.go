package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// dali is NVIDIA DALI with encoded images, all of them in the page cache, without a limit: more
// than the others have. A limit of its memory would not be fair, either: its own grows and shrinks
// by more than what their caches have.
func (f *field) dali() contender {
	return contender{optional: true, start: func(ctx context.Context) (turn, error) {
		cpus, err := someCPUs(f.s.cpus)
		if err != nil {
			return nil, err
		}
		var c *consumer
		err = onCPUs(cpus, func() (err error) {
			c, err = f.consume(ctx, "dali.py", "--dataset", f.d.of(inFile),
				"--workers", strconv.Itoa(f.s.cpus), "--batch-size", strconv.Itoa(f.d.batch),
				"--size", strconv.Itoa(f.d.height), "--width", strconv.Itoa(f.d.width))
			return err
		})
		if err != nil {
			return nil, err
		}
		f.later(c.stop)
		epoch := max(2, len(f.d.paths)/f.d.batch)
		_, err = c.turn(epoch)
		return func(context.Context) (figures, error) { return c.turn(epoch) }, err
	}}
}

// wrongBatches is how many batches differ from those of the first contender.
var wrongBatches = figure{"wrong", "batches", 1}

// sameBytes checks that the batches of every form are equal, whole images and random crops, and
// those of other decoders: so no form can change what a training learns.
func sameBytes(ctx context.Context, b *bench) ([]contest, error) {
	return mixed(ctx, b, func(d *mixData) []contest {
		f := &field{bench: b, d: d}
		rivals := []rival{
			f.ours(alone(inFile)), f.ours(alone(inPack)), f.ours(alone(inRaw)), f.ours(mix{0.4, 0.3, 0.3}),
			f.liquid(alone(inFile)),
		}
		names := []string{"", "packed", "raw", "all three, mixed", "decoded by libraries"}
		crops := d.transform()
		if d.height == 0 {
			crops = trainingCrop
		}
		var list []contest
		for _, how := range []struct {
			what  string
			flags []string
		}{{"whole images", ownSize}, {"random crops", crops}} {
			var first []string
			c := contest{what: d.row(how.what), rounds: 1, rows: func(r results) (rows []row) {
				for i := range names[1:] {
					name := d.row("exactness") + how.what + ", not the same as encoded: " + names[1+i]
					rows = append(rows, r.row(name, wrongBatches, 1+i).atMost(0).noted("of %d", len(first)))
				}
				return rows
			}}
			for _, one := range rivals {
				c.contenders = append(c.contenders, ready(func(ctx context.Context) (figures, error) {
					sums, err := f.sums(ctx, one, how.flags)
					if first == nil {
						first = sums
					}
					wrong := 0
					for i, sum := range sums {
						if sum != first[i] {
							wrong++
						}
					}
					return figures{wrongBatches: float64(wrong)}, err
				}))
			}
			list = append(list, c)
		}
		return list
	})
}

// sums are the checksums of the batches of an epoch that is not shuffled.
func (f *field) sums(ctx context.Context, r rival, flags []string) (sums []string, err error) {
	if err := f.d.writeMix(ctx, f.bench, r.mix); err != nil {
		return nil, err
	}
	batch := []string{"--batch-size", strconv.Itoa(f.d.batch), "--io", "buffered"}
	args := slices.Concat(batch, flags, []string{f.d.manifest(r.mix)})
	m, err := daemon.NewMount(ctx, f.work, r.program, args...)
	if err != nil {
		return nil, err
	}
	t, err := throughput.NewTraining(m, 0, func(file *os.File) (int64, error) {
		h := sha256.New()
		n, err := io.Copy(h, file)
		sums = append(sums, string(h.Sum(nil)))
		return n, err
	})
	if err == nil {
		_, err = t.Take(ctx, t.Batches)
	}
	return sums, errors.Join(err, m.Unmount(ctx))
}
