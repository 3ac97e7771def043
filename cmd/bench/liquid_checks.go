package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/batchfs/batchfs/shard"
)

// daliEpochs is the number of epochs after which DALI's own memory has nearly stopped growing.
const daliEpochs = 8

// dali is NVIDIA DALI with encoded images, in a control group that has the same storage, and memory
// for what DALI itself takes and for a page cache of the same size. What it takes is measured
// first, while the page cache does not count for its group; it still grows a little after that.
func (f *field) dali() contender {
	return contender{optional: true, start: func() turn {
		files := filepath.Join(f.d.dir, "dali") // whose pages nobody else reads
		check(errors.Join(os.RemoveAll(files), os.CopyFS(files, os.DirFS(f.d.of(shard.Encoded)))))
		group, python := inGroup(f.bench, f.python)
		epoch := max(2, len(f.d.paths)/f.d.batch)
		begin := func() (c *consumer) {
			defer func(outside string) { f.python = outside }(f.python)
			f.python = python
			onCPUs(someCPUs(f.s.cpus), func() {
				c = f.consume("dali.py", "--dataset", files,
					"--workers", strconv.Itoa(f.s.cpus), "--batch-size", strconv.Itoa(f.d.batch),
					"--size", strconv.Itoa(f.d.height), "--width", strconv.Itoa(f.d.width))
			})
			c.turn(daliEpochs * epoch)
			return c
		}
		begin().stop()
		taken := group.peakMemory()
		dropPages(files)
		check(group.limitReads(files, int64(f.s.mb)*1e6))
		check(group.limitMemory(taken + taken/16 + int64(f.s.cached*float64(f.d.encoded))))
		c := begin()
		return func() figures { return c.turn(epoch) }
	}}
}

// What trainings train: the numbers of channels of a model and of epochs, and the seeds, each of
// which trains one model.
var channels = []int{8, 32}

const (
	trainEpochs = 8
	trainSeeds  = 5
	scenes      = 4 // that photos show, in turn
)

// correct is the share of the test images whose scene a trained model names.
var correct = figure{"correct", "%", 100}

// trainings trains small PyTorch models on the mixes of photos, on the processors that decode, and
// measures how fast and how well. Crops and flips are the same for each mix, but their order is
// not.
func trainings(b *bench) {
	test := filepath.Join(b.work, "test photos")
	b.command("gen", "--out", test, "--seed", "1", "--images", "512", "--classes", strconv.Itoa(scenes))
	for d := range b.mixed {
		if d.name != "JPEG" {
			continue // they have no classes
		}
		f := usualField(b, d)
		for _, n := range channels {
			f.trained(test, n)
		}
	}
}

func (f *field) trained(test string, channels int) {
	sides := f.endToEnd()
	var contenders []contender
	for _, side := range sides {
		contenders = append(contenders, f.model(side.rival, test, channels))
	}
	where := fmt.Sprintf("%sa model of %d channels, ", f.d.row(f.s.String()), channels)
	r := f.hold(where, trainSeeds, contenders...)
	for i, side := range sides {
		f.print(
			r.row(where+side.name, rate, i).noted("%v", side.mix),
			r.row(where+"test images it is right about, "+side.name, correct, i),
		)
	}
	ours, theirs := r.of(correct, len(sides)-1), r.of(correct, 0)
	apart := numbers(math.Abs(apart(ours.values, theirs.values)))
	what := where + "right, ours beside encoded, apart by"
	f.print(
		r.ratio(where+"ours / Liquid's", rate, len(sides)-1, 1),
		measured(what, "standard errors", apart).atMost(2).noted("%v and %v %%", ours, theirs),
	)
}

// apart returns the difference of the means of two samples, in standard errors.
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

// model trains a model anew in each turn, each time with another seed.
func (f *field) model(r rival, test string, channels int) contender {
	return contender{start: func() turn {
		dataset := f.d.writeMix(f.bench, r.mix)
		tests := f.mount(f.batchfs, test, []string{"--batch-size", "64", "--resize", "not-smaller", "--size", "224x224"})
		seed := 0
		return func() figures {
			seed++
			var found struct{ Rate, Correct float64 }
			check(f.within(func() {
				m := f.mount(r.program, dataset, append(f.flags(r), "--seed", strconv.Itoa(seed)))
				cmd := f.script("train.py", "--mount", m.Dir, "--test", tests.Dir,
					"--classes", strconv.Itoa(scenes), "--channels", strconv.Itoa(channels),
					"--epochs", strconv.Itoa(trainEpochs), "--seed", strconv.Itoa(seed))
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				if err != nil {
					check(fmt.Errorf("train.py: %w", err))
				}
				check(json.Unmarshal(out, &found))
			}))
			return figures{rate: found.Rate, correct: found.Correct}
		}
	}}
}
