package catalog

import (
	"fmt"
	"math"
	"strconv"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/layout"
)

// MaskOptions say where the masks of samples are, and how their values are changed.
type MaskOptions struct {
	pixels.Values // New sets Wide
	// Dataset holds the mask files, indexed with [sample.ProbeMask]; it must outlive the catalog.
	// nil: all masks are drawn.
	Dataset  *dataset.Dataset
	Rows     []int32  // by sample: its mask's number in Dataset; -1: drawn
	Panoptic bool     // masks are RGB, and their values red + 256 green + 65536 blue
	Classes  int      // number of classes that values in batches stand for; 0: any number
	Names    []string // of classes, by value; nil: without names
	// Draw draws the mask of a sample without a file: one byte for each pixel of the annotated
	// image, row by row. It may be called concurrently.
	Draw  func(id int64, to []byte) error
	Drawn string // a digest of the annotations, including what masks are drawn from
	// Size is the size of the annotated image.
	Size func(id int64) (height, width int)
}

// errMask means that a mask does not fit its image.
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

// prepared returns the options with a dtype. The index determines it: the dtype must hold the
// values of any mask. m may be nil.
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

// Spec is the shape of a batch in form f, given the shape s of its images. m may be nil.
func (m *MaskOptions) Spec(s layout.Spec, f layout.Form) layout.Spec {
	if m != nil && (f == layout.MasksNPY || f == layout.MasksPNG) {
		s, _ = layout.NewSpec(s.N, s.H, s.W, 1, m.dtype(), layout.NHWC) // has an Err if it cannot exist
	}
	return s
}

// A Mask is what the index knows about a mask.
type Mask struct {
	Row                  int // number in the masks' dataset; -1: drawn
	Height, Width, Bytes int // pixels as stored, and bytes per value
	// Orientation relates it to the image as shown; see pixels.MaskOrientation.
	Orientation uint8
}

// Indexed is the mask of a sample, without its orientation.
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

// Check finds the orientation of a mask, given the h x w stored pixels of its image and the image's
// EXIF orientation, which may be ignored. The error says why it cannot be that image's mask, and
// wraps errMask.
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
