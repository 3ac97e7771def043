package decode

import (
	"bytes"
	"fmt"
	"image"
	"os"
	"path/filepath"
)

// webpSamples returns lossless samples written here, and those in testdata, made by libwebp's
// encoder: a lossy image, one with alpha, one of a single pixel, a compressed lossless one.
func webpSamples() (out []sample) {
	add := func(name string, w, h int, data []byte) *sample {
		out = append(out, sample{name: name + ".webp", data: data, format: WebP, orientation: 1, w: w, h: h, rgb: sceneRGB(w, h)})
		return &out[len(out)-1]
	}
	for _, size := range [][2]int{{1, 1}, {2, 5}, {33, 20}} {
		w, h := size[0], size[1]
		add(fmt.Sprintf("lossless-%dx%d", w, h), w, h, riff("VP8L", writeVP8L(w, h, scene)))
		add(fmt.Sprintf("lossless-extended-%dx%d", w, h), w, h,
			riff("VP8X", vp8x(1<<4, w, h), "ICCP", []byte("profile"), "VP8L", writeVP8L(w, h, scene)))
	}
	files, _ := filepath.Glob("testdata/*.webp")
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if m, _, err := image.Decode(bytes.NewReader(data)); err == nil {
			s := fromOracle(m)
			s.name, s.data, s.format, s.orientation = filepath.Base(f), data, WebP, 1
			s.rate(m)
			out = append(out, s)
		}
	}
	return out
}
