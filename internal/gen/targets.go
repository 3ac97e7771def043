package gen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"path/filepath"
	"slices"
)

// Splits are how many images are in train and in val; 0 and 0: the dataset has no splits.
func (o Options) Splits() (train, val int) {
	for i := range o.Images {
		switch {
		case !o.Annotated():
		case split(i) == "val":
			val++
		default:
			train++
		}
	}
	return train, val
}

// split is the part of an annotated dataset that image i belongs to.
func split(i int) string {
	if i%5 == 4 {
		return "val"
	}
	return "train"
}

// The ids of Cityscapes' labels.
const (
	road       = 7
	sidewalk   = 8
	building   = 11
	vegetation = 21
	sky        = 23
	person     = 24
	car        = 26
)

// truth describes what a street shows.
type truth struct {
	ids    []uint16          // by pixel: a label, or for people, 1000 times the label plus their number
	label  uint16            // of what is painted next
	people []image.Rectangle // by number
}

// is sets the label of what is painted next.
func (t *truth) is(label uint16) {
	if t != nil {
		t.label = label
	}
}

// next starts the next person.
func (t *truth) next(box image.Rectangle) {
	t.label = person*1000 + uint16(len(t.people))
	t.people = append(t.people, box)
}

// cityPath is the path of one of image i's files in Cityscapes' layout.
func cityPath(folder string, i int, ending string) string {
	cities := map[string][]string{"train": {"aachen", "bochum", "bremen"}, "val": {"frankfurt", "lindau", "munster"}}[split(i)]
	city := cities[i/5%len(cities)]
	return filepath.Join(folder, split(i), city, fmt.Sprintf("%s_%06d_000019_%s", city, i, ending))
}

// write writes the mask and the boxes of image i.
func (t *truth) write(dir string, i int) error {
	mask := image.NewGray(image.Rect(0, 0, cityWidth, cityHeight))
	seen := make([]image.Rectangle, len(t.people))
	for at, id := range t.ids {
		if id >= 1000 {
			x, y := at%cityWidth, at/cityWidth
			part := &seen[id%1000]
			*part = part.Union(image.Rect(x, y, x+1, y+1))
			id /= 1000
		}
		mask.Pix[at] = byte(id)
	}
	type object struct {
		ID      int    `json:"instanceId"`
		Box     [4]int `json:"bbox"`
		Visible [4]int `json:"bboxVis"`
		Label   string `json:"label"`
	}
	objects := []object{}
	for k, box := range t.people {
		if !seen[k].Empty() {
			objects = append(objects, object{person*1000 + k, corner(box), corner(seen[k]), "pedestrian"})
		}
	}
	t.people = nil
	var data bytes.Buffer
	if err := png.Encode(&data, mask); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, cityPath("gtFine", i, "gtFine_labelIds.png")), data.Bytes()); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, cityPath("gtBboxCityPersons", i, "gtBboxCityPersons.json")),
		map[string]any{"imgHeight": cityHeight, "imgWidth": cityWidth, "objects": objects})
}

// corner describes a box by its first corner and its size.
func corner(r image.Rectangle) [4]int { return [4]int{r.Min.X, r.Min.Y, r.Dx(), r.Dy()} }

func writeJSON(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return write(name, append(data, '\n'))
}

const cocoWidth, cocoHeight = 160, 120

// A shape is a convex polygon with a colour of its own.
type shape struct {
	category int
	corners  []image.Point // in fractions of a pixel, see parts
}

// parts is the number of units per pixel.
const parts = 16

// categories are kinds of shapes; their ids have gaps, as in COCO. A disc has many corners.
var categories = [...]struct {
	ID      int    `json:"id"`
	Name    string `json:"name"`
	corners int
}{{2, "disc", 32}, {5, "square", 4}, {9, "triangle", 3}}

func cocoPath(i int, ext string) string {
	return filepath.Join(split(i)+"2017", fmt.Sprintf("%012d%s", i, ext))
}

// coco paints image index of a dataset of shapes on noise: later ones cover earlier ones in part.
func coco(p *painter, seed uint64, index int) {
	p.start(cocoWidth, cocoHeight, newRNG(seed, uint64(index)))
	p.box(0, 0, p.w, p.h, p.random(tone{70, 70, 70}, tone{150, 150, 150}))
	p.texture(0, p.h, p.noise(p.tiles.soft, 1), 30)
	p.shapes = nil
	var taken []image.Rectangle
	for range p.r.between(1, 6) {
		radius := p.r.between(10, 24)
		x, y := p.r.between(radius, p.w-radius), p.r.between(radius, p.h-radius)
		middle := image.Rect(x-radius*2/3, y-radius*2/3, x+radius*2/3, y+radius*2/3)
		if slices.ContainsFunc(taken, middle.Overlaps) {
			continue // too little would be visible of the shape below
		}
		taken = append(taken, middle)
		polygon(p, image.Pt(x, y), radius)
	}
	p.texture(0, p.h, p.noise(p.tiles.grain, 1), 20)
}

// polygon paints a shape of some category around a point.
func polygon(p *painter, centre image.Point, radius int) {
	kind := categories[p.r.IntN(len(categories))]
	s, turn := shape{category: kind.ID}, p.r.IntN(1024)
	for k := range kind.corners {
		angle := turn + k*1024/kind.corners
		towards := image.Pt(isin(angle+256), isin(angle))
		s.corners = append(s.corners, centre.Mul(parts).Add(towards.Mul(radius*parts).Div(4096)))
	}
	p.shapes = append(p.shapes, s)
	bits := p.r.IntN(8) // which channels are bright; none is as gray as the background
	paint := p.vary(tone{30 + 190*(bits&1), 30 + 190*(bits>>1&1), 30 + 190*(bits>>2)}, 20, 10)
	p.fill(centre.X-radius, centre.Y-radius, centre.X+radius+1, centre.Y+radius+1, func(x, y int) (tone, int) {
		at, before := image.Pt(x, y).Mul(parts).Add(image.Pt(parts/2, parts/2)), s.corners[len(s.corners)-1]
		for _, c := range s.corners {
			edge, to := c.Sub(before), at.Sub(before)
			if edge.X*to.Y-edge.Y*to.X < 0 { // outside of this edge
				return paint, 0
			}
			before = c
		}
		return paint, 256
	})
}

// writeInstances writes the annotations of both splits.
func (o Options) writeInstances(dir string, shown [][]shape) error {
	type instance struct {
		ID       int          `json:"id"`
		Image    int          `json:"image_id"`
		Category int          `json:"category_id"`
		Box      [4]float64   `json:"bbox"`
		Area     float64      `json:"area"`
		Polygons [1][]float64 `json:"segmentation"`
		Crowd    int          `json:"iscrowd"`
	}
	type picture struct {
		ID     int    `json:"id"`
		File   string `json:"file_name"`
		Width  int    `json:"width"`
		Height int    `json:"height"`
	}
	for _, part := range []string{"train", "val"} {
		pictures, instances := []picture{}, []instance{}
		for i, shapes := range shown {
			if split(i) != part {
				continue
			}
			pictures = append(pictures, picture{i, filepath.Base(cocoPath(i, o.format().ext)), cocoWidth, cocoHeight})
			for k, s := range shapes {
				a := instance{ID: 100*i + k + 1, Image: i, Category: s.category}
				low, high, before := s.corners[0], s.corners[0], s.corners[len(s.corners)-1]
				for _, c := range s.corners {
					low, high = image.Pt(min(low.X, c.X), min(low.Y, c.Y)), image.Pt(max(high.X, c.X), max(high.Y, c.Y))
					a.Polygons[0] = append(a.Polygons[0], float64(c.X)/parts, float64(c.Y)/parts)
					a.Area += float64(before.X*c.Y-before.Y*c.X) / (2 * parts * parts)
					before = c
				}
				for k, v := range corner(image.Rectangle{Min: low, Max: high}) {
					a.Box[k] = float64(v) / parts
				}
				instances = append(instances, a)
			}
		}
		if len(pictures) == 0 {
			continue
		}
		if err := writeJSON(filepath.Join(dir, "annotations", "instances_"+part+"2017.json"),
			map[string]any{"images": pictures, "annotations": instances, "categories": categories}); err != nil {
			return err
		}
	}
	return nil
}
