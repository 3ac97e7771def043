package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
)

// This file measures parts of batchfs in this process, without a mount.

// A decodingWay is a kind of work of the decoder alone.
type decodingWay struct {
	name  string
	mode  resample.Mode
	rule  decode.EntryRule
	pairs bool    // two images at once
	least float64 // the goal, as a multiple of what C does
}

// Entry points are of no use to progressive JPEGs, which must be read as a whole for any part.
var (
	baselineWays = []decodingWay{
		{"in full / C", resample.None, decode.EntryOff, false, 2.2},
		{"in full, in pairs / C", resample.None, decode.EntryOff, true, 2.5},
		{"regions of random-resized-crop / C", resample.RandomResizedCrop, decode.EntryOff, false, 2.8},
		{"the same in pairs / C", resample.RandomResizedCrop, decode.EntryOff, true, 3.2},
		{"the same with an entry point a row / C", resample.RandomResizedCrop, decode.EntryRows, false, 4},
	}
	progressiveWays = []decodingWay{
		{"in full / C", resample.None, decode.EntryOff, false, 2.2},
		{"regions of random-resized-crop / C", resample.RandomResizedCrop, decode.EntryOff, false, 2.2},
	}
)

// decoderAlone decodes JPEGs from memory on one core, both in full and the regions of random crops,
// with every kernel of the decoder, and compares that with C on the same core. It uses photos of
// gen, and real ones if scripts/photos.sh could make some.
func decoderAlone(b *bench) {
	one := cores()[:1]
	for _, set := range []struct {
		name, folder string
		ways         []decodingWay
	}{
		{"photos of gen", "", baselineWays},
		{"real photos, quality 90", "90", baselineWays},
		{"real photos, quality 97", "97", baselineWays},
		{"progressive real photos", "progressive", progressiveWays},
	} {
		files, what := b.photos().some(128), "decoder alone, one core: "+set.name
		if set.folder != "" {
			files = must(filepath.Glob(filepath.Join(b.realPhotos, set.folder, "*.jpg")))
		}
		if len(files) == 0 {
			b.print(skipped("make bench could not install the packages that have them", what))
			continue
		}
		kernels := decode.Kernels()
		sides := []contender{b.c(1, files).on(one)}
		for _, way := range set.ways {
			for _, k := range kernels {
				sides = append(sides, b.decoding(files, way, k).on(one))
			}
		}
		r := b.hold(what, 0, sides...)
		name := what + ", "
		for i, way := range set.ways {
			var fastest series
			var notes []string
			for n, k := range kernels {
				fastest = r.of(rate, 1+i*len(kernels)+n).over(r.of(rate, 0))
				notes = append(notes, fmt.Sprintf("%s %.2f", k, fastest.median()))
			}
			b.print(measured(name+way.name, "C", fastest).atLeast(way.least).noted("%s", strings.Join(notes, ", ")))
			name = "    "
		}
	}
}

// decoding decodes one region of each file per call, or of two, in four epochs.
func (b *bench) decoding(files []string, way decodingWay, k decode.Kernel) contender {
	return contender{start: func() turn {
		o := decode.Options{MaxPixels: 1 << 28, Kernel: k}
		decoders := [2]*decode.Decoder{decode.NewDecoder(o), decode.NewDecoder(o)}
		var pix [2][]byte
		images := make([]decode.Task, len(files)) // in full
		entries := make([][]decode.EntryPoint, len(files))
		for i, path := range files {
			image := wholeOf(path)
			images[i] = image
			for n, buf := range pix {
				pix[n] = slices.Grow(buf[:0], image.To.Stride*image.To.Height)
				pix[n] = pix[n][:cap(pix[n])]
			}
			image.To.Pix = pix[0]
			decoders[0].SetEntryPoints(way.rule, nil)
			if err := decoders[0].Decode(image.To, image.Data, image.Header); err != nil {
				check(fmt.Errorf("%s: %w", path, err))
			}
			made, _ := decoders[0].TakeEntryPoints()
			entries[i] = slices.Clone(made)
		}
		crop := resample.Options{
			Mode: way.mode, Height: 224, Width: 224, Flip: 0.5,
			CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio,
		}
		var tasks []decode.Task
		for epoch := range 4 {
			for i, t := range images {
				y, x, height, width := crop.Choose(epoch, int64(i), t.Header.Height, t.Header.Width).Source()
				t.To = decode.Image{Stride: width * 3, Height: height, Width: width}
				t.Region = decode.Region{X: x, Y: y, W: width, H: height}
				tasks = append(tasks, t)
			}
		}
		return perSecond(len(tasks), func() {
			for i := 0; i < len(tasks); i++ {
				check(b.ctx.Err())
				if t := tasks[i]; way.pairs && i%2 == 0 {
					pair := [2]decode.Task{t, tasks[i+1]}
					pair[0].To.Pix, pair[1].To.Pix = pix[0], pix[1]
					errs := decode.DecodePair(&decoders, &pair)
					check(errors.Join(errs[:]...))
					i++
				} else {
					if at := entries[i%len(files)]; at != nil {
						decoders[0].SetEntryPoints(way.rule, at)
					}
					t.To.Pix = pix[0]
					check(decoders[0].DecodeRegion(t.To, t.Data, t.Header, t.Region, t.Scale))
				}
			}
		})
	}}
}

// wholeOf reads a file, all of which is to be decoded.
func wholeOf(path string) decode.Task {
	data := must(os.ReadFile(path))
	head, err := decode.ReadHeader(data, true)
	if err != nil {
		check(fmt.Errorf("%s: %w", path, err))
	}
	height, width := head.Size(false)
	return decode.Task{To: decode.Image{Stride: width * 3, Height: height, Width: width}, Data: data, Header: head, Scale: 1}
}
