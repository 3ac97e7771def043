package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batchfs/batchfs/internal/throughput"
)

// This file measures what targets cost: masks beside a second mount that serves them as images, and
// boxes beside images alone.

// discs are shown by each mask, later ones before earlier ones. Each has a box, and a class, which
// is its value in the mask.
const discs = 7

// aTurn is how long the contenders of this file read in each turn.
const aTurn = time.Second

// annotate makes masks of pictures, each with the path of its picture below another folder, and a
// file of the boxes, as COCO has them, once.
func annotate(b *bench, p *pictures) error {
	if p.boxes != "" {
		return nil
	}
	b.progress.step("drawing masks", 0, 1)
	type object map[string]any
	p.masks = filepath.Join(b.work, p.kind+p.format+"-masks")
	var images, boxes, classes []object
	for class := 1; class <= discs; class++ {
		classes = append(classes, object{"id": class, "name": fmt.Sprint("disc ", class)})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range p.images {
		height, width := p.Size(i, false)
		mask := image.NewGray(image.Rect(0, 0, width, height))
		for class := 1; class <= discs; class++ {
			r := 10 + random.IntN(height/5)
			top, left := random.IntN(height-2*r), random.IntN(width-2*r)
			for y := range 2 * r {
				half := int(math.Sqrt(float64(r*r - (y-r)*(y-r))))
				row := mask.Pix[(top+y)*mask.Stride+left+r-half:][:2*half]
				for x := range row {
					row[x] = uint8(class)
				}
			}
			boxes = append(boxes, object{
				"id": len(boxes), "image_id": i, "category_id": class, "iscrowd": 0, "area": 4 * r * r,
				"bbox": []int{left, top, 2 * r, 2 * r},
			})
		}
		images = append(images, object{"id": i, "file_name": p.Path(i), "height": height, "width": width})
		var file bytes.Buffer
		if err := png.Encode(&file, mask); err != nil {
			return err
		}
		path := filepath.Join(p.masks, strings.TrimSuffix(p.Path(i), filepath.Ext(p.Path(i)))+".png")
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, file.Bytes(), 0o644))
		if err != nil {
			return err
		}
	}
	text, err := json.Marshal(object{"images": images, "annotations": boxes, "categories": classes})
	if err != nil {
		return err
	}
	p.boxes = p.masks + ".json"
	return os.WriteFile(p.boxes, text, 0o644)
}

// targets are flags of mounts of pictures with masks or with boxes.
func (p *pictures) targets(kind string) []string {
	return []string{"--targets", kind, "--annotations", map[string]string{"masks": p.masks, "boxes": p.boxes}[kind]}
}

// maskEpochs compares epochs of images with their masks with the same epochs of two mounts, one
// after the other: of the images, and of the masks as images.
func maskEpochs(_ context.Context, b *bench) (list []contest, err error) {
	for _, w := range []struct {
		what  string
		p     *pictures
		flags []string
	}{
		{"JPEG, random-resized-crop 224, flip, with masks", &b.photos, crops64},
		{"JPEG in its own size, with masks", &b.photos, own},
		{"PNG 2048x1024, random-resized-crop 224, flip, with masks", &b.cityscapes, shuffled(8, trainingCrop...)},
		{"PNG 2048x1024 in its own size, with masks", &b.cityscapes, large},
	} {
		if err := annotate(b, w.p); err != nil {
			return nil, err
		}
		flags, with, gray := warm(w.flags), warm(w.flags, w.p.targets("masks")), warm(w.flags, []string{"--color", "gray"})
		list = append(list, contest{
			what: w.what,
			contenders: []contender{
				b.training(mount{dataset: w.p.Root(), flags: with, form: "npy", further: []string{"masks.npy"}, time: aTurn}),
				b.training(mount{dataset: w.p.Root(), flags: with, form: "safetensors", time: aTurn}),
				b.training(mount{dataset: w.p.Root(), flags: flags, form: "npy", time: aTurn}),
				b.training(mount{dataset: w.p.masks, flags: gray, form: "npy", time: aTurn}),
			},
			rows: func(r results) []row {
				apart := r.of(rate, 2).with(r.of(rate, 3), func(x, y float64) float64 { return 1 / (1/x + 1/y) })
				return []row{
					ratio(w.what+": one mount / two", rate.unit, r.of(rate, 0), apart).atLeast(0.9),
					ratio("    as .safetensors / two", rate.unit, r.of(rate, 1), apart).atLeast(0.9),
				}
			},
		})
	}
	return list, nil
}

// boxEpochs compares epochs of images with their boxes with epochs of the images alone, which have
// labels instead.
func boxEpochs(_ context.Context, b *bench) ([]contest, error) {
	if err := annotate(b, &b.photos); err != nil {
		return nil, err
	}
	alone := mount{
		dataset: b.photos.Root(), flags: warm(crops64), read: throughput.Reading(0, true), form: "npy", time: aTurn,
		further: []string{"labels.npy"},
	}
	boxed := alone
	boxed.flags = append(b.photos.targets("boxes"), alone.flags...)
	boxed.further = []string{"boxes.npy", "boxes.labels.npy", "boxes.offsets.npy"}
	const what = "JPEG, random-resized-crop 224, flip, with boxes"
	sides := []contender{b.training(boxed), b.training(alone)}
	return []contest{{what: what, contenders: sides, rounds: 2 * b.rounds, rows: func(r results) []row {
		return []row{
			r.ratio(what+" / alone", rate, 0, 1).atLeast(0.98),
			r.ratio("    processor time an image", cost, 0, 1),
		}
	}}}, nil
}
