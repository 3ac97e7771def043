package main

import (
	"context"
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
	least float64 // the goal, as a multiple of what C does
}

// Entry points are of no use to progressive JPEGs, of which all must be read for any part.
var (
	baselineWays = []decodingWay{
		{"in full / C", resample.None, decode.EntryOff, 2.2},
		{"regions of random-resized-crop / C", resample.RandomResizedCrop, decode.EntryOff, 2.8},
		{"the same with an entry point a row / C", resample.RandomResizedCrop, decode.EntryRows, 4},
	}
	progressiveWays = []decodingWay{
		{"in full / C", resample.None, decode.EntryOff, 2.2},
		{"regions of random-resized-crop / C", resample.RandomResizedCrop, decode.EntryOff, 2.2},
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
			work, err := decodingRegions(files, way.mode, k, way.rule)
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

// decodingRegions decodes one region of each file per call, from entry points of a rule. Its
// figures are images per second.
func decodingRegions(files []string, mode resample.Mode, k decode.Kernel, rule decode.EntryRule) (side, error) {
	type image struct {
		data []byte
		head decode.Header
		to   decode.Image
		from decode.Region
		at   []decode.EntryPoint
	}
	decoder := decode.NewDecoder(decode.Options{MaxPixels: maxPixels, Kernel: k})
	images := make([]image, 0, 4*len(files))
	options := resample.Options{Mode: mode, Height: 224, Width: 224, CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio}
	var pix []byte
	for i, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		head, err := decode.ReadHeader(data, true)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if n := head.Width * head.Height * 3; n > len(pix) {
			pix = make([]byte, n)
		}
		decoder.SetEntryPoints(rule, nil)
		if err := decoder.Decode(decode.Image{Pix: pix, Stride: head.Width * 3, Height: head.Height, Width: head.Width}, data, head); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		made, _ := decoder.TakeEntryPoints()
		at := slices.Clone(made)
		for epoch := range 4 {
			y, x, height, width := options.Choose(epoch, int64(i), head.Height, head.Width).Source()
			images = append(images, image{
				data, head, decode.Image{Stride: width * 3, Height: height, Width: width}, decode.Region{X: x, Y: y, W: width, H: height}, at,
			})
		}
	}
	return func(ctx context.Context) (float64, error) {
		began := time.Now()
		for i := range images {
			one := &images[i]
			one.to.Pix = pix
			if one.at != nil {
				decoder.SetEntryPoints(rule, one.at)
			}
			if err := decoder.DecodeRegion(one.to, one.data, one.head, one.from, 1); err != nil || ctx.Err() != nil {
				return 0, err
			}
		}
		return float64(len(images)) / time.Since(began).Seconds(), nil
	}, nil
}
