package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/shard"
)

// daliEpochs is after how many epochs DALI's own memory has nearly stopped to grow.
const daliEpochs = 8

// dali is NVIDIA DALI with encoded images, in a control group that has the same storage, and memory
// for what DALI itself takes and for a page cache of the same size. What it takes is measured
// first, while the page cache is not its group's; it still grows a little after that.
func (f *field) dali() contender {
	return contender{optional: true, start: func(ctx context.Context) (turn, error) {
		cpus, err := someCPUs(f.s.cpus)
		if err != nil {
			return nil, err
		}
		files := filepath.Join(f.d.dir, "dali") // whose pages nobody else reads
		if err := errors.Join(os.RemoveAll(files), os.CopyFS(files, os.DirFS(f.d.of(shard.Encoded)))); err != nil {
			return nil, err
		}
		group, python, err := inGroup(f.bench, f.python)
		if err != nil {
			return nil, err
		}
		inside := *f.bench
		inside.python = python
		epoch := max(2, len(f.d.paths)/f.d.batch)
		begin := func() (c *consumer, err error) {
			err = onCPUs(cpus, func() (err error) {
				c, err = inside.consume(ctx, "dali.py", "--dataset", files,
					"--workers", strconv.Itoa(f.s.cpus), "--batch-size", strconv.Itoa(f.d.batch),
					"--size", strconv.Itoa(f.d.height), "--width", strconv.Itoa(f.d.width))
				return err
			})
			if err == nil {
				_, err = c.turn(daliEpochs * epoch)
			}
			return c, err
		}
		first, err := begin()
		if first != nil {
			err = errors.Join(err, first.stop())
		}
		if err != nil {
			return nil, err
		}
		own, err := group.peakMemory()
		err = errors.Join(err, dropPages(files), group.limitReads(files, int64(f.s.mb)*1e6),
			group.limitMemory(own+own/16+int64(f.s.cached*float64(f.d.encoded))))
		if err != nil {
			return nil, err
		}
		c, err := begin()
		if c != nil {
			f.later(c.stop)
		}
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
			f.ours(alone(shard.Encoded)), f.ours(alone(shard.Packed)), f.ours(alone(shard.Raw)), f.ours(mix{0.4, 0.3, 0.3}),
			f.liquid(alone(shard.Encoded)),
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
	flags = append([]string{"--batch-size", strconv.Itoa(f.d.batch), "--io", "buffered"}, flags...)
	err = f.mounting(ctx, r.program, f.d.manifest(r.mix), flags, func(m *daemon.Mount) error {
		return readEpochs(ctx, m, 1, func(file *os.File) (int64, error) {
			h := sha256.New()
			n, err := io.Copy(h, file)
			sums = append(sums, string(h.Sum(nil)))
			return n, err
		})
	})
	return sums, err
}

// What trainings train: models of so many channels, for so many epochs, once for each seed.
var channels = []int{8, 32}

const (
	trainEpochs = 8
	trainSeeds  = 5
	scenes      = 4 // that photos show, in turn
)

// correct is the share of the test images whose scene a trained model names.
var correct = figure{"correct", "%", 100}

// trainings train small models of PyTorch on the mixes of photos, on the processors that decode:
// how fast, and how well. Crops and flips are the same for each mix, but their order is not.
func trainings(ctx context.Context, b *bench) ([]contest, error) {
	test := filepath.Join(b.work, "test photos")
	_, err := b.command(ctx, "gen", "--out", test, "--seed", "1",
		"--images", "512", "--classes", strconv.Itoa(scenes))
	if err != nil {
		return nil, err
	}
	return mixed(ctx, b, func(d *mixData) (list []contest) {
		if d.name != "JPEG" {
			return nil // they have no classes
		}
		f := &field{bench: b, d: d, s: setting{mb: enough, cpus: len(processors()), cached: cachedShare}}
		for _, n := range channels {
			list = append(list, f.trained(test, n))
		}
		return list
	})
}

func (f *field) trained(test string, channels int) contest {
	sides := f.endToEnd()
	var contenders []contender
	for _, side := range sides {
		contenders = append(contenders, f.train(side.rival, test, channels))
	}
	where := fmt.Sprintf("%sa model of %d channels, ", f.d.row(f.s.String()), channels)
	c := contest{what: where, contenders: contenders, rounds: trainSeeds}
	c.rows = func(r results) (rows []row) {
		for i, side := range sides {
			rows = append(rows,
				r.row(where+side.name, rate, i).noted("%v", side.mix),
				r.row(where+"test images it is right about, "+side.name, correct, i))
		}
		ours, theirs := r.of(correct, len(sides)-1), r.of(correct, 0)
		apart := numbers(math.Abs(apart(ours.values, theirs.values)))
		what := where + "right, ours beside encoded, apart by"
		return append(rows,
			r.ratio(where+"ours / Liquid's", rate, len(sides)-1, 1),
			measured(what, "standard errors", apart).atMost(2).noted("%v and %v %%", ours, theirs))
	}
	return c
}

// apart is how many standard errors the means of two samples differ by.
func apart(a, b []float64) float64 {
	of := func(x []float64) (mean, square float64) {
		for _, v := range x {
			mean += v / float64(len(x))
		}
		for _, v := range x {
			square += (v - mean) * (v - mean) / float64(len(x)-1) / float64(len(x))
		}
		return mean, square
	}
	meanA, squareA := of(a)
	meanB, squareB := of(b)
	if meanA == meanB {
		return 0
	}
	return (meanA - meanB) / math.Sqrt(squareA+squareB)
}

// train trains a model anew in each turn, each time with another seed.
func (f *field) train(r rival, test string, channels int) contender {
	return contender{start: func(ctx context.Context) (turn, error) {
		if err := f.d.writeMix(ctx, f.bench, r.mix); err != nil {
			return nil, err
		}
		whole := []string{"--batch-size", "64", "--resize", "not-smaller", "--size", "224x224"}
		tests, err := f.bench.start(ctx, f.batchfs, test, whole)
		if err != nil {
			return nil, err
		}
		seed := 0
		return func(ctx context.Context) (figures, error) {
			seed++
			var found struct{ Rate, Correct float64 }
			flags := append(f.flags(r), "--seed", strconv.Itoa(seed))
			err := f.mounting(ctx, r.program, f.d.manifest(r.mix), flags, func(m *daemon.Mount) error {
				cmd := f.script(ctx, "train.py", "--mount", m.Dir, "--test", tests.Dir,
					"--classes", strconv.Itoa(scenes), "--channels", strconv.Itoa(channels),
					"--epochs", strconv.Itoa(trainEpochs), "--seed", strconv.Itoa(seed))
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				if err != nil {
					return fmt.Errorf("train.py: %w", err)
				}
				return json.Unmarshal(out, &found)
			})
			return figures{rate: found.Rate, correct: found.Correct}, err
		}, nil
	}}
}
