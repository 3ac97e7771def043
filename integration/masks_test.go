package integration

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// masked is a dataset of PNGs of one size, with masks beside them.
type masked struct{ dir string }

const (
	maskedImages            = 14
	maskedBatch             = 4
	maskedHeight, maskedWid = 24, 33
)

func newMasked(t testing.TB) masked {
	t.Helper()
	m := masked{filepath.Join(scratch(t), "masked")}
	for id := range maskedImages {
		rgb := noise(uint64(300+id), maskedHeight, maskedWid)
		writeFile(t, filepath.Join(m.dir, fmt.Sprintf("images/%02d.png", id)), asPNG(opaque(maskedHeight, maskedWid, rgb)))
		m.write(t, id, maskedHeight, false)
	}
	return m
}

func (m masked) mask(id int) string {
	return filepath.Join(m.dir, "masks", fmt.Sprintf("%02d.png", id))
}

func (m masked) value(id, i int) byte { return byte((id*5 + i*i) % 21) }

// write writes the mask of an image, of 8 bits with a palette or of 16.
func (m masked) write(t testing.TB, id, height int, wide bool) {
	t.Helper()
	area := image.Rect(0, 0, maskedWid, height)
	indexed, gray := image.NewPaletted(area, nil), image.NewGray16(area)
	for k := range 21 {
		indexed.Palette = append(indexed.Palette, color.Gray{Y: uint8(255 - k)})
	}
	for i := range maskedWid * height {
		indexed.Pix[i] = m.value(id, i)
		gray.SetGray16(i%maskedWid, i/maskedWid, color.Gray16{Y: uint16(m.value(id, i))})
	}
	var picture image.Image = indexed
	if wide {
		picture = gray
	}
	writeFile(t, m.mask(id), asPNG(picture))
}

// expect compares the masks of a batch with those of the samples that it is described to show.
func (m masked) expect(t *testing.T, mount *mounted, batch int) {
	t.Helper()
	doc := mount.batchDoc(t, 0, 0, batch)
	path := mount.path(0, 0, batch, layout.MasksNPY)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(file)) {
		t.Errorf("%s has %d bytes, %v, and %d were read", path, info.Size(), err, len(file))
	}
	masks := file[layout.Page:]
	if len(masks) != len(doc.Samples)*maskedHeight*maskedWid {
		t.Fatalf("%d elements", len(masks))
	}
	for i, v := range masks {
		s, at := doc.Samples[i/(maskedHeight*maskedWid)], i%(maskedHeight*maskedWid)
		want := m.value(s.ID, at)
		if s.Status == "zeroed" {
			want = 255
		}
		if v != want {
			t.Fatalf("batch %d, %s: element %d of a slot that shows %d is %d, not %d", batch, s.Status, at, s.ID, v, want)
		}
	}
	both, err := os.ReadFile(mount.path(0, 0, batch, layout.SafeTensors))
	if err != nil || !bytes.Contains(both, masks) {
		t.Errorf("batch %d: the masks are not in .safetensors, %v", batch, err)
	}
}

// TestMasksOfAMount: masks have the values of their files and the size that stat says, beside the
// images and in one file with them; without --targets there are none.
func TestMasksOfAMount(t *testing.T) {
	m := newMasked(t)
	mount := mountBatchfs(t, m.dir, "--targets", "masks", "--batch-size", fmt.Sprint(maskedBatch))
	for batch := range (maskedImages + maskedBatch - 1) / maskedBatch {
		m.expect(t, mount, batch)
		for _, form := range []layout.Form{layout.MasksPNG, layout.SafeTensors, layout.NHWCForm} {
			path := mount.path(0, 0, batch, form)
			data, err := os.ReadFile(path)
			if info, errStat := os.Stat(path); err != nil || errStat != nil || info.Size() != int64(len(data)) {
				t.Errorf("%s: %d bytes were read, stat says %v, %v", path, len(data), info, errors.Join(err, errStat))
			}
			if form == layout.MasksPNG {
				if _, err := png.Decode(bytes.NewReader(data)); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
	}
	plain := mountBatchfs(t, filepath.Join(m.dir, "images"), "--batch-size", fmt.Sprint(maskedBatch))
	if _, err := os.Stat(plain.path(0, 0, 0, layout.MasksNPY)); !errors.Is(err, unix.ENOENT) {
		t.Errorf("without --targets, masks: %v", err)
	}
}

// TestBadMasks: a mask that went bad is an error of what shows it, by name; or its sample is
// replaced or zeroed, in images and masks alike, whichever is read first.
func TestBadMasks(t *testing.T) {
	skipWithoutFUSE(t)
	faults := map[string]func(m masked, id int) error{
		"missing":         func(m masked, id int) error { return os.Remove(m.mask(id)) },
		"truncated":       func(m masked, id int) error { return os.Truncate(m.mask(id), 70) },
		"of 16 bits":      func(m masked, id int) error { m.write(t, id, maskedHeight, true); return nil },
		"of another size": func(m masked, id int) error { m.write(t, id, maskedHeight+1, false); return nil },
	}
	for name, spoil := range faults {
		for _, policy := range []string{"fail", "replace", "zero"} {
			for _, masksFirst := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, masks first: %v", name, policy, masksFirst), func(t *testing.T) {
					m := newMasked(t)
					mount := mountBatchfs(t, m.dir, "--targets", "masks", "--batch-size", fmt.Sprint(maskedBatch), "--on-error", policy)
					const bad = 5
					if err := spoil(m, bad); err != nil {
						t.Fatal(err)
					}
					forms := []layout.Form{layout.NHWCForm, layout.MasksNPY}
					if masksFirst {
						slices.Reverse(forms)
					}
					for _, form := range forms {
						_, err := os.ReadFile(mount.path(0, 0, bad/maskedBatch, form))
						if fails := policy == "fail" && form == layout.MasksNPY; fails != errors.Is(err, unix.EIO) || !fails && err != nil {
							t.Errorf("%s: %v", form, err)
						}
					}
					if policy != "fail" {
						m.expect(t, mount, bad/maskedBatch)
						if status := mount.batchDoc(t, 0, 0, bad/maskedBatch).Samples[bad%maskedBatch].Status; status != policy+"d" && status != policy+"ed" {
							t.Errorf("the sample is %s", status)
						}
					}
					m.expect(t, mount, 0)
					if lines := mount.badLines(t); len(lines) != 1 || !strings.HasSuffix(lines[0].Path, fmt.Sprintf("%02d.png", bad)) {
						t.Errorf("the list of bad files is %+v", lines)
					}
				})
			}
		}
	}
}
