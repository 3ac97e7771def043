package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
)

// This file measures parts of batchfs within this process, without a mount.

const maxPixels = 1 << 28

// crop224 is trainingCrop as an option.
var crop224 = resample.Options{
	Mode: resample.RandomResizedCrop, Height: 224, Width: 224,
	CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio, Flip: 0.5,
}

// An encoded is a file in memory.
type encoded struct {
	data []byte
	head decode.Header
}

func load(files []string) (all []encoded, err error) {
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		head, err := decode.ReadHeader(data, true)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, encoded{data, head})
	}
	return all, nil
}

// into is where all of the image is decoded: at the start of pix, which grows if it is too small.
func (e encoded) into(pix *[]byte) decode.Image {
	height, width := e.head.Size(false)
	if n := height * width * 3; n > len(*pix) {
		*pix = make([]byte, n)
	}
	return decode.Image{Pix: *pix, Stride: width * 3, Height: height, Width: width}
}

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

// decoderAlone decodes JPEGs from memory on one core, in full and the regions of random crops,
// with every kernel of the decoder, and compares with C on the same core: photos of gen, and
// real ones if scripts/photos.sh could make some.
func decoderAlone(_ context.Context, b *bench) (list []contest, err error) {
	cpus, err := cores()
	if err != nil {
		return nil, err
	}
	for _, set := range []struct {
		name, folder string
		ways         []decodingWay
	}{
		{"photos of gen", "", baselineWays},
		{"real photos, quality 90", "90", baselineWays},
		{"real photos, quality 97", "97", baselineWays},
		{"progressive real photos", "progressive", progressiveWays},
	} {
		files := b.photos.some(128)
		if set.folder != "" {
			if files, err = filepath.Glob(filepath.Join(b.realPhotos, set.folder, "*.jpg")); err != nil {
				return nil, err
			}
		}
		what := "decoder alone, one core: " + set.name
		if len(files) == 0 {
			list = append(list, skipped("make bench could not install the packages that have them", what))
			continue
		}
		kernels := decode.Kernels()
		sides := []contender{b.c(1, files).on(cpus[:1])}
		for _, way := range set.ways {
			for _, k := range kernels {
				sides = append(sides, decoding(files, way, k).on(cpus[:1]))
			}
		}
		list = append(list, contest{what: what, contenders: sides, rows: func(r results) (rows []row) {
			name := what + ", "
			for i, way := range set.ways {
				var fastest series
				var notes []string
				for n, k := range kernels {
					fastest = r.of(rate, 1+i*len(kernels)+n).over(r.of(rate, 0))
					notes = append(notes, fmt.Sprintf("%s %.2f", k, fastest.median()))
				}
				rows = append(rows, measured(name+way.name, "C", fastest).atLeast(way.least).noted("%s", strings.Join(notes, ", ")))
				name = "    "
			}
			return rows
		}})
	}
	return list, nil
}

// decoding decodes one region of each file per call, or of two, in four epochs.
func decoding(files []string, way decodingWay, k decode.Kernel) contender {
	return contender{start: func(context.Context) (turn, error) {
		images, err := load(files)
		if err != nil {
			return nil, err
		}
		o := decode.Options{MaxPixels: maxPixels, Kernel: k}
		decoders := [2]*decode.Decoder{decode.NewDecoder(o), decode.NewDecoder(o)}
		var pix [2][]byte
		var tasks []decode.Task
		entries := make([][]decode.EntryPoint, len(files))
		for i, image := range images {
			whole := image.into(&pix[0])
			image.into(&pix[1])
			decoders[0].SetEntryPoints(way.rule, nil)
			if err := decoders[0].Decode(whole, image.data, image.head); err != nil {
				return nil, fmt.Errorf("%s: %w", files[i], err)
			}
			made, _ := decoders[0].TakeEntryPoints()
			entries[i] = slices.Clone(made)
		}
		crop := crop224
		crop.Mode = way.mode
		for epoch := range 4 {
			for i, image := range images {
				y, x, height, width := crop.Choose(epoch, int64(i), image.head.Height, image.head.Width).Source()
				tasks = append(tasks, decode.Task{
					To: decode.Image{Stride: width * 3, Height: height, Width: width}, Data: image.data, Header: image.head,
					Region: decode.Region{X: x, Y: y, W: width, H: height}, Scale: 1,
				})
			}
		}
		return perSecond(len(tasks), func(ctx context.Context) error {
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
					return err
				}
			}
			return ctx.Err()
		}), nil
	}}
}
