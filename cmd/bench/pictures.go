package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/sample"
)

// pictures are a dataset of images of one kind.
type pictures struct {
	kind   string
	images int
	*dataset.Dataset
	files []string // in the order of the samples
	masks string   // a folder, if annotate was called
	boxes string   // a file, likewise
}

// The datasets, each made when it is needed first.
func (b *bench) photos() *pictures     { return b.need("photo", "", b.images) }
func (b *bench) cityscapes() *pictures { return b.need("cityscape", "", b.options.cityscapes) }
func (b *bench) stills() *pictures     { return b.need("photo", "png", min(b.images, 512)) } // photos as PNG

// real returns real photos as PNG files, nil if there are none.
func (b *bench) real() *pictures {
	if photos, _ := filepath.Glob(filepath.Join(b.realPhotos, "97", "*.jpg")); len(photos) == 0 {
		return nil
	}
	return b.need("real", "png", min(b.images, 512))
}

// noPhotos is why rows of real photos are skipped.
const noPhotos = "the packages that have real photos could not be installed"

// need makes pictures and their index, once. If format is empty, they have the usual format of
// their kind.
func (b *bench) need(kind, format string, images int) *pictures {
	name := kind + format
	if p := b.made[name]; p != nil {
		return p
	}
	p, dir := &pictures{kind: kind, images: images}, filepath.Join(b.work, name)
	if kind == "real" {
		drawReal(b.realPhotos, dir, images)
	} else {
		n, classes := strconv.Itoa(images), strconv.Itoa(min(16, images))
		args := []string{"gen", "--out", dir, "--kind", kind, "--images", n, "--classes", classes}
		if format != "" {
			args = append(args, "--format", format)
		}
		b.command(args...)
	}
	options := dataset.Options{CacheDir: filepath.Join(b.cache(), "batchfs"), Prober: sample.Probe}
	p.Dataset = must(dataset.Open(b.ctx, dir, options))
	for i := range p.images {
		p.files = append(p.files, filepath.Join(dir, p.Path(i)))
	}
	if b.made == nil {
		b.made = map[string]*pictures{}
	}
	b.made[name] = p
	return p
}

// some returns the first files, at most n.
func (p *pictures) some(n int) []string { return p.files[:min(n, p.images)] }

// Root is the directory that they are in.
func (p *pictures) Root() string { return p.Dataset.Root }

// bytes is the mean size of a file.
func (p *pictures) bytes() float64 { return float64(p.Report.Bytes) / float64(p.images) }

// drawReal stores n real photos as PNG files, each several times if there are fewer.
func drawReal(photos, dir string, n int) {
	files := must(filepath.Glob(filepath.Join(photos, "97", "*.jpg")))
	var encoded [][]byte
	for _, name := range files[:min(len(files), n)] {
		photo, err := jpeg.Decode(bytes.NewReader(must(os.ReadFile(name))))
		if err != nil {
			check(fmt.Errorf("%s: %w", name, err))
		}
		var file bytes.Buffer
		check(png.Encode(&file, photo))
		encoded = append(encoded, file.Bytes())
	}
	for i := range n {
		write(filepath.Join(dir, "real", fmt.Sprintf("%04d.png", i)), encoded[i%len(encoded)])
	}
}

// write writes a file, with the directories that it is in.
func write(path string, content []byte) {
	check(errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)))
}

// discs are shown by each mask, later ones before earlier ones. Each has a box, and a class, which
// is its value in the mask.
const discs = 7

// annotate makes masks for pictures, each with the path of its picture below another folder, and a
// file of the boxes in COCO's format, once. It returns the flags of a mount with one of them as
// targets.
func annotate(b *bench, p *pictures, targets string) []string {
	if p.boxes == "" {
		p.masks = filepath.Join(b.work, p.kind+"-masks")
		p.boxes = p.masks + ".json"
		p.draw()
	}
	return []string{"--targets", targets, "--annotations", map[string]string{"masks": p.masks, "boxes": p.boxes}[targets]}
}

// draw writes the masks and the file of boxes.
func (p *pictures) draw() {
	type object map[string]any
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
		check(png.Encode(&file, mask))
		write(filepath.Join(p.masks, strings.TrimSuffix(p.Path(i), filepath.Ext(p.Path(i)))+".png"), file.Bytes())
	}
	write(p.boxes, must(json.Marshal(object{"images": images, "annotations": boxes, "categories": classes})))
}
