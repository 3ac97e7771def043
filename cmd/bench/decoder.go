package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
)

// A decodingWay is a kind of work of the decoder alone.
type decodingWay struct {
	name  string
	mode  resample.Mode
	rule  decode.EntryRule
	pairs bool    // two images at once
	least float64 // the goal, as a multiple of what C does
}

// Entry points are of no use to progressive JPEGs, of which all must be read for any part.
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

// decoderAlone decodes JPEGs from memory on one core, in full and the regions of random crops,
// with every kernel of the decoder, and compares with C on the same core: photos of gen, and
// real ones if scripts/photos.sh could make some.
func decoderAlone(ctx context.Context, s *setup) (rows []row, err error) {
	cpus, err := cores()
	if err != nil {
		return nil, err
	}
	sets := []struct {
		name, folder string
		ways         []decodingWay
	}{
		{"photos of gen", "", baselineWays},
		{"real photos, quality 90", "90", baselineWays},
		{"real photos, quality 97", "97", baselineWays},
		{"progressive real photos", "progressive", progressiveWays},
	}
	for _, set := range sets {
		files := s.photos.files[:min(128, s.photos.images)]
		if set.folder != "" {
			if files, err = filepath.Glob(filepath.Join(s.realPhotos, set.folder, "*.jpg")); err != nil {
				return nil, err
			}
		}
		what := "decoder alone, one core: " + set.name
		if len(files) == 0 {
			rows = append(rows, row{what: what, skipped: "make bench could not install the packages that have them"})
			continue
		}
		more, err := s.decoding(ctx, what, cpus[:1], files, set.ways)
		if err != nil {
			return rows, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// decoding makes the rows for some files.
func (s *setup) decoding(ctx context.Context, what string, cpu []int, files []string, ways []decodingWay) (rows []row, err error) {
	sides := []side{onCPUs(cpu, s.c(1, files))}
	kernels := decode.Kernels()
	for _, way := range ways {
		for _, k := range kernels {
			work, err := decodingRegions(files, way, k)
			if err != nil {
				return nil, err
			}
			sides = append(sides, onCPUs(cpu, work))
		}
	}
	rates, err := s.turns(ctx, "decoder", s.rounds, sides...)
	if err != nil {
		return nil, err
	}
	c := rates[0]
	for i, way := range ways {
		of, note := rates[1+i*len(kernels):][:len(kernels)], []string{}
		for n, k := range kernels {
			note = append(note, fmt.Sprintf("%s %.2f", k, median(ratios(of[n], c))))
		}
		name := "    " + way.name
		if i == 0 {
			name = what + ", " + way.name
		}
		rows = append(rows, measured(name, "C", ratios(of[len(of)-1], c), strings.Join(note, ", ")).atLeast(way.least))
	}
	return rows, nil
}

// decodingRegions decodes one region of each file per call, or of two. Its figures are images per second.
func decodingRegions(files []string, way decodingWay, k decode.Kernel) (side, error) {
	o := decode.Options{MaxPixels: maxPixels, Kernel: k}
	decoders := [2]*decode.Decoder{decode.NewDecoder(o), decode.NewDecoder(o)}
	tasks, entries := make([]decode.Task, 4*len(files)), make([][]decode.EntryPoint, len(files))
	options := resample.Options{Mode: way.mode, Height: 224, Width: 224, CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio}
	var pix [2][]byte
	for i, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		head, err := decode.ReadHeader(data, true)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if n := head.Width * head.Height * 3; n > len(pix[0]) {
			pix = [2][]byte{make([]byte, n), make([]byte, n)}
		}
		decoders[0].SetEntryPoints(way.rule, nil)
		if err := decoders[0].Decode(decode.Image{Pix: pix[0], Stride: head.Width * 3, Height: head.Height, Width: head.Width}, data, head); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		made, _ := decoders[0].TakeEntryPoints()
		entries[i] = slices.Clone(made)
		for epoch := range 4 {
			y, x, height, width := options.Choose(epoch, int64(i), head.Height, head.Width).Source()
			tasks[epoch*len(files)+i] = decode.Task{
				To: decode.Image{Stride: width * 3, Height: height, Width: width}, Data: data, Header: head,
				Region: decode.Region{X: x, Y: y, W: width, H: height}, Scale: 1,
			}
		}
	}
	return func(ctx context.Context) (float64, error) {
		began := time.Now()
		for i := 0; i < len(tasks) && ctx.Err() == nil; i++ {
			var err error
			if t := tasks[i]; way.pairs && i%2 == 0 {
				pair := [2]decode.Task{t, tasks[i+1]}
				pair[0].To.Pix, pair[1].To.Pix = pix[0], pix[1]
				errs := decode.DecodePair(&decoders, &pair)
				err = errors.Join(errs[:]...)
				i++
			} else {
				if at := entries[i%len(files)]; at != nil {
					decoders[0].SetEntryPoints(way.rule, at)
				}
				t.To.Pix = pix[0]
				err = decoders[0].DecodeRegion(t.To, t.Data, t.Header, t.Region, t.Scale)
			}
			if err != nil {
				return 0, err
			}
		}
		return float64(len(tasks)) / time.Since(began).Seconds(), nil
	}, nil
}
