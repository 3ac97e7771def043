package engine

import (
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
)

// render decodes a sample, transforms it, and writes it to its slot.
func (w *worker) render(it item, data []byte, head decode.Header, t resample.Transform) error {
	height, width := head.Size(w.options.IgnoreOrientation)
	if w.engine.converter.Direct(it.b.spec.Order, t.Flip) && untouched(t, height, width) {
		return w.renderInPlace(it, data, head, t)
	}
	return w.renderThrough(it, data, head, t)
}

// untouched reports whether a transform leaves an image unchanged.
func untouched(t resample.Transform, height, width int) bool {
	h, w := t.Size()
	return t.Copies() && h == height && w == width
}

// renderInPlace decodes an image into the top left of its slot and fills the rest.
func (w *worker) renderInPlace(it item, data []byte, head decode.Header, t resample.Transform) error {
	if err := w.beginDecode(it, head); err != nil {
		return err
	}
	defer w.endDecode()
	h, width := t.Size()
	spec, pixels := it.b.spec, it.b.slotBytes(it.slot)
	stride := spec.W * spec.C
	if err := w.decoder.Decode(decode.Image{Pix: pixels, Stride: stride, Height: h, Width: width}, data, head); err != nil {
		return err
	}
	w.writer.Begin(pixels, spec, h, width, t.Flip, w.engine.opts.Fill)
	w.writer.End()
	return nil
}

// renderThrough decodes the part that the transform needs into scratch memory, at the
// smallest sufficient scale. From there it writes the slot in one pass: filtered, mirrored,
// normalised and in its axis order.
func (w *worker) renderThrough(it item, data []byte, head decode.Header, t resample.Transform) error {
	e, spec := w.engine, it.b.spec
	scale := 1
	if head.Format == decode.JPEG && !e.opts.FullJPEGs {
		scale = t.Scale()
	}
	if scale > 1 {
		offY, offX := w.options.ScaleOffset(head, scale)
		t = t.Reduced(scale, offY, offX)
	}
	y, x, h, width := t.Source()
	pixels, err := w.grow(it, &w.pixels, h*width*spec.C)
	if err != nil {
		return err
	}
	scratch, err := w.grow(it, &w.resize, resample.ScratchBytes(t, spec.C))
	if err != nil {
		return err
	}
	if err := w.beginDecode(it, head); err != nil {
		return err
	}
	defer w.endDecode()
	region := w.options.StoredRegion(head, decode.Region{X: x, Y: y, W: width, H: h}, scale)
	image := decode.Image{Pix: pixels, Stride: width * spec.C, Height: h, Width: width}
	if err := w.decoder.DecodeRegion(image, data, head, region, scale); err != nil {
		return err
	}
	outH, outW := t.Size()
	w.writer.Begin(it.b.slotBytes(it.slot), spec, outH, outW, t.Flip, e.opts.Fill)
	source := resample.Image{Pix: pixels, Stride: width * spec.C, Height: h, Width: width, Channels: spec.C}
	err = resample.Resize(w.writer, source, t.Moved(y, x), scratch)
	w.writer.End()
	return err
}
