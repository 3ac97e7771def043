//go:build cuda && linux && cgo && (amd64 || arm64)

package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/fakecuda"
	"github.com/batchfs/batchfs/internal/testkit"
)

const jpegSlot = 64 << 10

// mixedJPEGs are files, and the numbers of those that nvJPEG refuses. There are more than one call
// decodes.
func mixedJPEGs() (files [][]byte, refused []int, err error) {
	const dir = "../../decode/testdata/"
	for i := range mostJPEGs + 8 {
		name := []string{"samples/ycc-2x1-7x9.jpg", "samples/gray.jpg"}[i%2]
		damaged := i == 7 || i == mostJPEGs+4
		switch {
		case damaged:
			name = "regions/2x2-restarts.jpg"
		case i == 3:
			name = "progressive.jpg"
			refused = append(refused, i)
		case i == 5:
			name = "samples/cmyk.jpg"
			refused = append(refused, i)
		}
		data, err := os.ReadFile(dir + name)
		if err != nil {
			return nil, nil, err
		}
		if i == 9 || i == 11 { // nvJPEG fails at it, whatever the reason
			data = slices.Insert(data, 2, []byte("\xff\xfe\x00\x0ffails with "+[]string{9: "6\x00", 11: "8\x00"}[i])...)
			refused = append(refused, i)
		}
		if damaged { // its header is as good as ever
			data = slices.Delete(data, len(data)/2, len(data)-10)
			refused = append(refused, i)
		}
		files = append(files, data)
	}
	return files, refused, nil
}

// want is what the library in host memory makes of a file.
func want(data []byte, gray bool) ([]byte, error) {
	o := decode.Options{IgnoreOrientation: true}
	if gray {
		o.Color = decode.Gray
	}
	head, err := decode.ReadHeader(data, true)
	if err != nil {
		return nil, err
	}
	d := decode.NewDecoder(o)
	defer d.Close()
	stride := head.Width * o.Color.Channels()
	pix := make([]byte, head.Height*stride)
	err = d.Decode(decode.Image{Pix: pix, Stride: stride, Height: head.Height, Width: head.Width}, data, head)
	for i := range pix {
		pix[i] ^= 1
	}
	return pix, err
}

// partJPEGs decodes files twice. Its result says how.
func partJPEGs(arguments []string) (result any, err error) {
	gray := slices.Contains(arguments, "gray")
	files, refused, err := mixedJPEGs()
	if err != nil {
		return nil, err
	}
	if slices.Contains(arguments, "good") {
		files, refused = slices.Repeat(files[:1], mostJPEGs+8), nil
	}
	err = onDevice(0, func(t *Thread, undo func(func() error)) error {
		version, err := NVJPEGVersion()
		if err != nil {
			return err
		}
		s, err := t.NewStream()
		if err != nil {
			return err
		}
		undo(s.Close)
		p, err := t.Alloc(int64(len(files) * jpegSlot))
		if err != nil {
			return err
		}
		undo(func() error { return t.Free(p) })
		d, err := t.NewJPEGDecoder(gray)
		if err != nil {
			return err
		}
		undo(d.Close)
		if slices.Contains(arguments, "once") {
			d.Most = len(files)
			return decodeMixed(d, s, p, files, refused, gray)
		}
		result = version + " " + d.Backend
		return errors.Join(decodeMixed(d, s, p, files, refused, gray), decodeMixed(d, s, p, files, refused, gray))
	})
	return result, err
}

func decodeMixed(d *JPEGDecoder, s *Stream, p Pointer, files [][]byte, refused []int, gray bool) error {
	wants, images := make([][]byte, len(files)), make([]JPEG, len(files))
	for i, data := range files {
		head, err := decode.ReadHeader(data, true)
		if err != nil {
			return err
		}
		images[i] = JPEG{Data: data, To: p + Pointer(i*jpegSlot), Pitch: 512, Rows: head.Height}
		if slices.Contains(refused, i) {
			continue
		}
		if wants[i], err = want(data, gray); err != nil {
			return err
		}
	}
	err := d.Decode(s, images)
	if err = errors.Join(err, s.Synchronize()); err != nil {
		return err
	}
	for i, image := range images {
		if image.Refused != (wants[i] == nil) {
			return fmt.Errorf("image %d is refused: %t", i, image.Refused)
		}
		if wants[i] == nil {
			continue
		}
		row := len(wants[i]) / image.Rows
		got := make([]byte, image.Rows*image.Pitch+1)
		if err := errors.Join(s.ToHost(got, image.To), s.Synchronize()); err != nil {
			return err
		}
		if bytes.Equal(got, append(make([]byte, len(got)-1), 219)) { // with what was in the memory before behind it
			return fmt.Errorf("image %d is black", i)
		}
		for y := range image.Rows {
			if !bytes.Equal(got[y*image.Pitch:][:row], wants[i][y*row:][:row]) || got[y*image.Pitch+row] != 0 {
				return fmt.Errorf("image %d has other pixels", i)
			}
		}
	}
	return nil
}

// nvjpegDriver is a driver of its own, with the library.
func nvjpegDriver(t *testing.T, missing ...string) *fakecuda.Driver {
	t.Helper()
	d, err := fakecuda.Build(t.TempDir())
	if err == nil {
		err = d.AddNVJPEG(missing...)
	}
	testkit.Must(t, err)
	return d
}

func TestJPEGs(t *testing.T) {
	d := nvjpegDriver(t)
	if r, _ := run(t, d, fakecuda.Config{}, "jpegs"); r.Error != "" || string(r.Result) != `"12.4.0 hardware"` {
		t.Errorf("%+v", r)
	}
	if r, _ := run(t, d, fakecuda.Config{}, "jpegs", "gray"); r.Error != "" {
		t.Errorf("%+v", r)
	}
	if r, _ := run(t, d, fakecuda.Config{NVJPEG: 11008}, "jpegs"); !slices.Equal(r.Is, []string{"old nvJPEG"}) {
		t.Errorf("%+v", r)
	}
	if r, _ := run(t, nvjpegDriver(t, "nvjpegDecodeBatchedSupportedEx"), fakecuda.Config{}, "jpegs"); !slices.Equal(r.Is, []string{"old nvJPEG"}) {
		t.Errorf("%+v", r)
	}
	if r, _ := run(t, driver, fakecuda.Config{}, "jpegs"); !slices.Equal(r.Is, []string{"nvJPEG"}) {
		t.Errorf("%+v", r)
	}
}

// TestSkippedJPEGs: an image that nvJPEG skips silently is black, and does not show earlier content
// of the memory.
func TestSkippedJPEGs(t *testing.T) {
	c := fakecuda.Config{Failures: []fakecuda.Failure{{Function: "nvjpegDecodeBatched", Nth: 0, Code: -1}}}
	if r, _ := run(t, nvjpegDriver(t), c, "jpegs"); !strings.HasPrefix(r.Error, "image 0 is black") {
		t.Errorf("%+v", r)
	}
}

// TestJPEGsAtOnce: one call decodes as many JPEGs as it is told to.
func TestJPEGsAtOnce(t *testing.T) {
	d := nvjpegDriver(t)
	second := fakecuda.Config{Failures: []fakecuda.Failure{{Function: "nvjpegDecodeBatchedInitialize", Nth: 2, Code: 5}}}
	if r, _ := run(t, d, second, "jpegs", "good", "once"); r.Error != "" {
		t.Errorf("%+v", r)
	}
	if r, _ := run(t, d, second, "jpegs", "good"); r.Error == "" {
		t.Error("mounts give nvJPEG more JPEGs at once than before, whose pixels may differ")
	}
}

// TestJPEGBackends: only a device without an engine leads to another backend.
func TestJPEGBackends(t *testing.T) {
	d := nvjpegDriver(t)
	fails := func(status int) fakecuda.Config {
		return fakecuda.Config{Failures: []fakecuda.Failure{{Function: "nvjpegCreateEx", Nth: 1, Code: status}}}
	}
	for status, want := range map[int]string{7: `"12.4.0 GPU-hybrid"`, 9: `"12.4.0 GPU-hybrid"`, 5: "null", 6: "null"} {
		r, _ := run(t, d, fails(status), "jpegs")
		if failed := string(r.Result) == "null"; string(r.Result) != want || failed != (r.Error != "") && status < 7 {
			t.Errorf("%d: %+v", status, r)
		}
	}
}

// TestEveryJPEGCallFails: no failure is blamed on an image, nothing leaks, and an image is tried
// again after a single failure.
func TestEveryJPEGCallFails(t *testing.T) {
	d := nvjpegDriver(t)
	for _, f := range []string{"GetProperty", "CreateEx", "JpegStateCreate", "JpegStreamCreate", "DecodeParamsCreate", "DecodeParamsSetOutputFormat",
		"JpegStreamParseHeader", "DecodeBatchedSupportedEx", "DecodeBatchedInitialize", "DecodeBatched",
		"DecodeParamsDestroy", "JpegStreamDestroy", "JpegStateDestroy", "Destroy"} {
		again := slices.Contains([]string{"JpegStreamParseHeader", "DecodeBatchedSupportedEx", "DecodeBatchedInitialize", "DecodeBatched"}, f)
		for status, is := range map[int][]string{5: {"memory"}, 6: {"failed"}, 8: {"failed"}} {
			for nth := range 2 { // always, or once
				r, _ := run(t, d, fakecuda.Config{Failures: []fakecuda.Failure{{Function: "nvjpeg" + f, Nth: nth, Code: status}}}, "jpegs")
				if again && nth == 1 && status != 5 {
					is = nil
				}
				if !slices.Equal(r.Is, is) || (r.Error == "") != (is == nil) {
					t.Errorf("%s with %d: %+v", f, status, r)
				}
			}
		}
	}
}
