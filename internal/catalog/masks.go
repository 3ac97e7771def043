package catalog

import (
	"fmt"
	"math"
	"strconv"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/layout"
)

// MaskOptions say where the masks of samples are, and what becomes of their values.
type MaskOptions struct {
	pixels.Values // New sets Wide
	// Dataset has the masks in files, indexed with [sample.ProbeMask]; it must outlive the catalog.
	// nil: all are drawn.
	Dataset  *dataset.Dataset
	Rows     []int32  // by sample: the number of its mask in Dataset; -1: it is drawn
	Panoptic bool     // masks are RGB, and their values red + 256 green + 65536 blue
	Classes  int      // values, as they are in batches, are of so many classes; 0: of any number
	Names    []string // of classes, by value; nil: they have none
	// Draw writes the mask of a sample that has no file as it would be stored: a byte for each of
	// the pixels of the image that was annotated, row after row. It may be called concurrently.
	Draw  func(id int64, to []byte) error
	Drawn string // a digest of what they are drawn of, and of what else was read of annotations
	// Size is the size of that image.
	Size func(id int64) (height, width int)
}

// errMask means that a mask is not one of its image.
var errMask = fault.New(fault.File, "bad mask")

// settings are what the bytes of masks depend on.
func (m *MaskOptions) settings() map[string]any {
	s := map[string]any{
		"ignore_index": m.Ignore, "dtype": m.dtype().String(), "panoptic": m.Panoptic, "mapped": m.Map != nil,
		"sha256": digestOf(m.Rows, m.Map),
	}
	if m.Dataset != nil {
		s["digest"] = m.Dataset.Digest
	}
	if m.Drawn != "" {
		s["drawn"] = m.Drawn
	}
	return s
}

func (m *MaskOptions) dtype() layout.DType {
	if m.Wide {
		return layout.Int32
	}
	return layout.Uint8
}

// prepared returns the options with a dtype, which is decided by the index: it must hold the values
// of any mask. m may be nil.
func (m *MaskOptions) prepared() (*MaskOptions, error) {
	if m == nil {
		return nil, nil
	}
	own := *m
	return &own, own.chooseDType()
}

func (m *MaskOptions) chooseDType() error {
	m.Wide = m.Panoptic
	for i := 0; m.Dataset != nil && i < m.Dataset.Len() && !m.Wide; i++ {
		if why := m.Dataset.Unread(i); why != "" {
			return unread(m.Dataset, i, why, "and the dtype of masks depends on it")
		}
		m.Wide = sample.ValueBytes(m.Dataset, i) == 2
	}
	for _, v := range m.Map {
		m.Wide = m.Wide || v > math.MaxUint8
	}
	if m.Ignore >= 0 && int(m.Ignore) < m.Classes {
		return &option.Error{Field: "ignore index", Rule: fmt.Sprintf("none of the %d classes", m.Classes), Value: strconv.Itoa(int(m.Ignore))}
	}
	if !m.Wide && (m.Ignore < 0 || m.Ignore > math.MaxUint8) {
		return &option.Error{Field: "ignore index", Rule: "0 to 255 for masks of 8 bits", Value: strconv.Itoa(int(m.Ignore))}
	}
	return nil
}

// Spec is the shape of a batch in a form, if it has this one with images. m may be nil.
func (m *MaskOptions) Spec(s layout.Spec, f layout.Form) layout.Spec {
	if m != nil && (f == layout.MasksNPY || f == layout.MasksPNG) {
		s, _ = layout.NewSpec(s.N, s.H, s.W, 1, m.dtype(), layout.NHWC) // it has an Err if it cannot exist
	}
	return s
}

// A Mask is what the index says of a mask.
type Mask struct {
	Row                  int // in the masks' dataset; -1: it is drawn
	Height, Width, Bytes int // as stored, and of a value
	// Orientation is how it lies in relation to what is shown of its image: see
	// pixels.MaskOrientation.
	Orientation uint8
}

// Indexed is the mask of a sample, but for its orientation.
func (o *MaskOptions) Indexed(id int64) Mask {
	m := Mask{Row: int(o.Rows[id]), Bytes: 1}
	if m.Row >= 0 {
		m.Height, m.Width = o.Dataset.Size(m.Row, true)
		m.Bytes = sample.ValueBytes(o.Dataset, m.Row)
	} else {
		m.Height, m.Width = o.Size(id)
	}
	return m
}

// Check finds the orientation of a mask whose image has h x w stored pixels and an orientation by
// EXIF, which may be ignored. The error says why it cannot be that image's, and wraps errMask.
func (o *MaskOptions) Check(m *Mask, h, w int, orientation uint8, ignored bool) error {
	var fits bool
	m.Orientation, fits = pixels.MaskOrientation(m.Height, m.Width, h, w, orientation, ignored)
	switch rgb := m.Bytes == 3; {
	case m.Bytes == 0:
		return fmt.Errorf("%w: the index does not know what its values are", errMask)
	case rgb && !o.Panoptic:
		return fmt.Errorf("%w: it is RGB, and nothing says which class a colour is; save it with a palette, or as gray", errMask)
	case m.Row >= 0 && o.Panoptic && !rgb:
		return fmt.Errorf("%w: it has no colours, and panoptic masks have", errMask)
	case !fits:
		return fmt.Errorf("%w: it has %dx%d pixels, and its image %dx%d", errMask, m.Height, m.Width, h, w)
	case m.Bytes == 2 && !o.Wide:
		return fmt.Errorf("%w: its values have 16 bits, and those of all others had 8 when the dataset was opened", errMask)
	}
	return nil
}
