package integration

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// A torn album has pictures of many sizes in two classes, some of them unreadable: one has
// an intact header, one does not, and one is the last of the dataset, which padding
// repeats.
type torn struct {
	album
	bad map[int64]bool
}

const tornClass = 7 // the first picture of the second class

func tornAlbum(t testing.TB) torn {
	t.Helper()
	a := torn{album{dir: filepath.Join(scratch(t), "torn")}, map[int64]bool{}}
	for id := range 14 {
		h, w := 5+7*(id%5), 9+11*(id%4)
		p := lossless(fmt.Sprintf("%s/%02d.png", []string{"a", "b"}[id/tornClass], id), h, w, noise(uint64(100+id), h, w))
		switch id {
		case 2, 13:
			p.file = p.file[:len(p.file)-len(p.file)/3]
		case 5:
			p.file = []byte("this is no image")
		case 8:
			jpeg := jpegPicture("", 1, 64, 64, 1, false)
			p.file = jpeg.file[:len(jpeg.file)-40]
		}
		a.bad[int64(id)] = id == 2 || id == 5 || id == 8 || id == 13
		a.pictures = append(a.pictures, p)
		writeFile(t, filepath.Join(a.dir, p.name), p.file)
	}
	return a
}

// TestBadFilesUnderTransforms: unreadable samples are handled alike for all kinds of
// pixels: the batch does not open, or a replacement is resized, mirrored and normalized as
// if it stood in its own place, or the slot is filled.
func TestBadFilesUnderTransforms(t *testing.T) {
	skipWithoutFUSE(t)
	a := tornAlbum(t)
	for i, mode := range []string{"random-resized-crop", "not-larger", "not-smaller", "stretch"} {
		for n, policy := range []string{"replace", "zero", "fail"} {
			if n == 2 && i > 1 {
				continue // no part of it is ever seen
			}
			l := look{
				mode: mode, flip: 0.5, dtype: allDTypes[(i+1)%len(allDTypes)],
				settings: settings{batch: 4, seed: uint64(i), height: 12, width: 20, fill: 70, nchw: i%2 == 0, gray: i == 1},
			}
			if l.dtype != layout.Uint8 {
				l.mean, l.std = normalizations[0].of(l.channels())
			}
			t.Run(fmt.Sprintf("%s/%s/%s", policy, mode, l.dtype), func(t *testing.T) {
				t.Parallel()
				m, o := mountBatchfs(t, a.dir, l.flags("--on-error", policy)...), newOracle(t, a.dir, l.settings)
				for _, batch := range []int{3, 1, 0, 2} {
					a.expect(t, m, o, l, policy, 1, batch)
				}
				if lines := m.badLines(t); len(lines) != 4 {
					t.Errorf("%d lines for 4 bad files: %+v", len(lines), lines)
				}
			})
		}
	}
}

// expect checks a batch against a policy's result.
func (a torn) expect(t *testing.T, m *mounted, o *oracle, l look, policy string, epoch, batch int) {
	t.Helper()
	slots, valid := o.plan.Batch(0, epoch, batch, nil)
	hurt := false
	for _, s := range slots {
		hurt = hurt || a.bad[s.ID]
	}
	if hurt && policy == "fail" {
		for _, f := range []layout.Form{layout.NHWCForm, layout.NCHWForm, layout.NPY, layout.SafeTensors, layout.PNG} {
			expectOpen(t, m.path(0, epoch, batch, f), unix.EIO)
		}
		return
	}
	b := m.show(t, l, 0, epoch, batch)
	convert := l.convert()
	for i, s := range slots {
		id, status, label := s.ID, "ok", s.ID/tornClass
		if a.bad[id] {
			for status = "replaced"; a.bad[id]; {
				id = (id + 1) % int64(len(a.pictures)) // one shard, in order: the next position
			}
			label = id / tornClass
		}
		look := l.appearance(epoch, id, a.pictures[id].h, a.pictures[id].w)
		if a.bad[s.ID] && policy == "zero" {
			id, status, label, look = s.ID, "zeroed", -1, appearance{}
		}
		if i >= valid {
			status = "padded"
		}
		got := b.Samples[i]
		if got.ID != id || got.Path != a.pictures[id].name || got.Label != label || got.Status != status ||
			int(got.Height) != look.h || int(got.Width) != look.w || got.Flip != look.flip || !nearCrop(got.Crop, look.crop) {
			t.Errorf("batch %d, slot %d: %+v, not sample %d, %s, label %d, as %+v", batch, i, got, id, status, label, look)
		}
		if err := a.sameSlot(l, b, i, id, look, convert); err != nil {
			t.Errorf("batch %d, slot %d: %v", batch, i, err)
		}
	}
}

// sameSlot checks that the elements of a slot come from levels that the reference allows.
func (a torn) sameSlot(l look, b *shown, slot int, id int64, want appearance, convert func([]byte) []byte) error {
	var values []float64
	if want.h > 0 {
		values = want.values(a.pictures[id].upright(l.gray, false))
	}
	size := l.dtype.Size()
	fill := convert(bytes.Repeat([]byte{l.fill}, b.spec.C))
	for y := range b.spec.H {
		for x := range b.spec.W {
			got := b.pixel(slot, y, x)
			if y >= want.h || x >= want.w {
				if !bytes.Equal(got, fill) {
					return fmt.Errorf("(%d, %d) is %v, not fill, %v", y, x, got, fill)
				}
				continue
			}
			from := x
			if want.flip {
				from = want.w - 1 - x
			}
			for c := range b.spec.C {
				v := values[(y*want.w+from)*b.spec.C+c]
				near := slices.ContainsFunc([]float64{-0.5, 0.5, 1.5}, func(d float64) bool {
					level := make([]byte, b.spec.C)
					level[c] = byte(min(max(v+d, 0), 255))
					return bytes.Equal(convert(level)[c*size:][:size], got[c*size:][:size])
				})
				if !near {
					return fmt.Errorf("(%d, %d) channel %d is %v, not about %g", y, x, c, got, v)
				}
			}
		}
	}
	return nil
}
