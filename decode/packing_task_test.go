package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// packingFiles are images of all formats, sound and damaged.
func packingFiles(t testing.TB) (out []oddFile) {
	for _, s := range append(noisySamples(t), samples(t)...) {
		if len(s.data) < 1<<16 && s.w*s.h < 1<<15 {
			out = append(out, oddFile{s.name, s.data})
		}
	}
	for _, f := range append(oddFiles(t), out...) {
		if Sniff(f.data) == JPEG {
			bad := bytes.Clone(f.data)
			bad[len(bad)*3/4] ^= 0x55
			out = append(out, f, oddFile{f.name + " damaged", bad})
		}
	}
	return out
}

// taskOf is a random task for an image.
func taskOf(random *rand.Rand, d *Decoder, data []byte, h Header) (Task, *canvas) {
	scale := 1
	if h.Format == JPEG {
		scale = 1 << max(0, random.IntN(7)-3)
	}
	r := Region{}
	r.W, r.H = h.At(scale)
	if width, height := r.W, r.H; random.IntN(3) > 0 {
		r.W, r.H = 1+random.IntN(width), 1+random.IntN(height)
		r.X, r.Y = random.IntN(width-r.W+1), random.IntN(height-r.H+1)
	}
	height, width := (&view{Region: r, Orientation: d.options.orientation(h)}).size()
	c := newCanvas(width, height, d.options.Color.Channels())
	return Task{To: c.Image, Data: data, Header: h, Region: r, Scale: scale}, c
}

// TestTaskPack: an image that is decoded and packed has the same pixels, error and entry points as
// without, and the packed form that Pack makes, alone and in pairs.
func TestTaskPack(t *testing.T) {
	random, memory := rand.New(rand.NewPCG(7, 8)), [2][]byte{guardedMemory(t, 1<<23), guardedMemory(t, 1<<23)}
	files, packed := packingFiles(t), 0
	for n := range 3000 {
		f := [2]oddFile{files[n%len(files)], files[random.IntN(len(files))]}
		options := Options{Color: Color(random.IntN(2)), Kernel: Kernels()[random.IntN(len(Kernels()))]}
		rule := EntryRule(random.IntN(2) - 1)
		var by [2]*Decoder
		var tasks [2]Task
		var canvases [2]*canvas
		var want [2]string
		var forms [2]Packing
		for i := range by {
			h, err := ReadHeader(f[i].data, true)
			if err != nil || h.pixels() > 1<<20 {
				h, f[i] = headerOf(files[0].data), files[0]
			}
			by[i] = NewDecoder(options)
			defer by[i].Close()
			tasks[i], canvases[i] = taskOf(random, by[i], f[i].data, h)
			want[i] = outcome(t, by[i], tasks[i], canvases[i], rule)
			tasks[i].Pack = &forms[i]
			forms[i].To = atEnd(memory[i], int(PackedBound(h, int64(len(f[i].data)), ForMemory)))
		}
		if n%2 == 0 {
			for i := range by {
				by[i].SetEntryPoints(rule, nil)
			}
			errs := DecodePair(&by, &tasks)
			for i := range by {
				if got := after(t, by[i], canvases[i], errs[i]); got != want[i] {
					t.Errorf("%s packed beside %s: %.60q, not %.60q", f[i].name, f[1-i].name, got, want[i])
				}
			}
		} else if got := outcome(t, by[0], tasks[0], canvases[0], rule); got != want[0] {
			t.Errorf("%s packed: %.60q, not %.60q", f[0].name, got, want[0])
		}
		for i := range 1 + (n+1)%2 {
			packed += samePacking(t, f[i].name, by[i], &tasks[i], want[i])
		}
	}
	if packed < 1000 {
		t.Errorf("only %d were packed", packed)
	}
}

// outcome decodes a task and describes what became of it.
func outcome(t *testing.T, d *Decoder, task Task, c *canvas, rule EntryRule) string {
	d.SetEntryPoints(rule, nil)
	return after(t, d, c, d.DecodeTask(task))
}

func after(t *testing.T, d *Decoder, c *canvas, err error) string {
	pix := c.pixels(t, "task")
	if err != nil {
		pix = nil
	}
	made, result := d.TakeEntryPoints()
	return fmt.Sprintf("%v %x %v %v", err, pix, made, result)
}

// samePacking compares the packed form with that of Pack, and returns 1 if there is one.
func samePacking(t *testing.T, name string, d *Decoder, task *Task, decoded string) int {
	t.Helper()
	p := task.Pack
	want, err := d.Pack(task.Data, task.Header, ForMemory)
	if p.Err == nil {
		if err != nil || !bytes.Equal(p.To[:p.Size], want) {
			t.Errorf("%s: packed in another way while it was decoded, %v", name, err)
		}
		return 1
	}
	failed := decoded[:5] != "<nil>"
	if err == nil && !failed || p.Size != 0 || !failed && !errors.Is(p.Err, ErrNoPackedForm) && err.Error() != p.Err.Error() {
		t.Errorf("%s: not packed while it was decoded: %v, but else: %v", name, p.Err, err)
	}
	return 0
}

// TestTaskPackRefused: what cannot be packed while it is decoded is decoded nevertheless.
func TestTaskPackRefused(t *testing.T) {
	s := corpus("plain-37x21.jpg")
	h := headerOf(s.data)
	d := NewDecoder(Options{})
	defer d.Close()
	whole := Region{W: h.Width, H: h.Height}
	room := make([]byte, PackedBound(h, int64(len(s.data)), ForMemory))
	packed, err := d.Pack(s.data, h, ForMemory)
	if errors.Is(err, ErrNoPackedForm) {
		t.Skip("this build packs no JPEGs")
	}
	for name, c := range map[string]struct {
		data []byte
		room []byte
		kind error
	}{
		"too little room": {s.data, room[1:], ErrDestination},
		"packed already":  {packed, room, ErrNoPackedForm},
	} {
		p := Packing{To: c.room}
		image := newCanvas(h.Width, h.Height, 3)
		err := d.DecodeTask(Task{To: image.Image, Data: c.data, Header: headerOf(c.data), Region: whole, Scale: 1, Pack: &p})
		if err != nil || !errors.Is(p.Err, c.kind) || p.Size != 0 {
			t.Errorf("%s: %v; packed: %v", name, err, p.Err)
		}
	}
}
