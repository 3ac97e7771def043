package convert

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

const (
	bmpHeaderBytes = 14 + 40
	maxBMP         = math.MaxUint32 // bytes
)

// A File is the raw or packed file of a sample.
type File struct {
	Ext   string // for its name: .bmp, .ppm, .pgm or .bfs
	Size  int64  // bytes
	Write func(to io.Writer) error
}

// A raw is an image to be stored raw.
type raw struct {
	ext           string
	height, width int
	header        []byte
	stride        int    // bytes per row of the file, including a BMP's padding
	rgb           []byte // top-down, without padding
}

func newRaw(f Format, height, width int, gray bool) *raw {
	r := &raw{ext: ".ppm", height: height, width: width, stride: 3 * width}
	switch {
	case f == BMP:
		r.ext, r.stride = ".bmp", (3*width+3)&^3
		// 24 bits per pixel in one plane, uncompressed, bottom-up rows.
		pixels := uint32(r.stride * height)
		r.header, _ = binary.Append([]byte("BM"), binary.LittleEndian, []uint32{
			bmpHeaderBytes + pixels, 0, bmpHeaderBytes, 40, uint32(width), uint32(height), 1 | 24<<16, 0, pixels, 0, 0, 0, 0,
		})
	case gray:
		r.ext, r.stride, r.header = ".pgm", width, fmt.Appendf(nil, "P5\n%d %d\n255\n", width, height)
	default:
		r.header = fmt.Appendf(nil, "P6\n%d %d\n255\n", width, height)
	}
	return r
}

// size is the size of its file in bytes.
func (r *raw) size() int64 { return int64(len(r.header)) + int64(r.stride)*int64(r.height) }

// write writes the file.
func (r *raw) write(to io.Writer) error {
	out := bufio.NewWriterSize(to, 256<<10)
	out.Write(r.header)
	row := make([]byte, r.stride)
	for y := range r.height {
		if r.ext == ".bmp" {
			y = r.height - 1 - y
		}
		rgb := r.rgb[3*r.width*y:][:3*r.width]
		switch r.ext {
		case ".bmp":
			for x := 0; x < len(rgb); x += 3 {
				row[x], row[x+1], row[x+2] = rgb[x+2], rgb[x+1], rgb[x]
			}
		case ".pgm":
			for x := range row {
				row[x] = rgb[3*x]
			}
		default:
			row = rgb
		}
		out.Write(row)
	}
	return out.Flush()
}

func isGray(rgb []byte) bool {
	for ; len(rgb) >= 3; rgb = rgb[3:] {
		if rgb[0] != rgb[1] || rgb[1] != rgb[2] {
			return false
		}
	}
	return true
}

// FileBytes is the size of the raw file of a sample with h x w upright pixels. It is an upper bound
// if the file may become a PGM.
func (o Options) FileBytes(h, w int) int64 { return o.fileBytes(h, w, false) }

func (o *Options) fileBytes(h, w int, gray bool) int64 {
	h, w = o.transform().Size(h, w)
	return newRaw(o.Format, h, w, gray).size()
}

// Maker makes raw and packed files of samples, one at a time, in the memory of its Reader. Each
// worker has its own, and closes it.
type Maker struct {
	*sample.Reader
	ds *dataset.Dataset
	o  Options
}

// NewMaker returns a Maker that shares memory with other Makers. It uses only the options for
// format, pixels and size, which must be valid.
func NewMaker(ds *dataset.Dataset, o Options, memory *sample.Memory) *Maker {
	o = o.filled()
	return &Maker{sample.NewReader(ds, o.pixels(), memory), ds, o}
}

// Make reads sample i and makes it raw or packed. The file belongs to m until Done. Make waits
// until enough memory is free or ctx is done, and fails with [sample.ErrMemory] if there can never
// be enough, and with [decode.ErrNoPackedForm] if the sample has no packed form.
func (m *Maker) Make(ctx context.Context, i int, form shard.Cost) (f File, err error) {
	if form == shard.Packed {
		return m.pack(ctx, i)
	}
	img, err := m.Read(ctx, i, m.o.FileBytes(m.ds.Size(i, m.o.IgnoreOrientation)))
	if err != nil {
		return f, err
	}
	transform := m.o.transform()
	t := transform.Choose(0, int64(i), img.Height, img.Width)
	h, w := t.Size()
	rgb, err := m.Output(3 * h * w)
	if err != nil {
		return f, err
	}
	if err := m.Draw(img, t, pixels.Target{Pix: rgb, Stride: 3 * w}); err != nil {
		return f, &dataset.FileError{Path: m.ds.Path(i), Err: err}
	}
	r := newRaw(m.o.Format, h, w, m.o.Format == PPM && isGray(rgb))
	r.rgb = rgb
	return File{r.ext, r.size(), r.write}, nil
}

func (m *Maker) pack(ctx context.Context, i int) (f File, err error) {
	h := decode.Header{}
	h.Format, _ = decode.ParseFormat(m.ds.Format(i))
	h.Height, h.Width = m.ds.Size(i, true)
	size := m.ds.Stat(i).Size
	needs := decode.PackedBound(h, size, decode.ForFile) + m.o.pixels().PackNeeds(h, size, decode.ForFile)
	img, err := m.Read(ctx, i, needs)
	if err != nil {
		return f, err
	}
	data, err := m.Reader.Pack(img)
	if err != nil {
		return f, &dataset.FileError{Path: m.ds.Path(i), Err: err}
	}
	return FileOf(decode.PackedExt, data), nil
}

// FileOf makes a File of bytes.
func FileOf(ext string, data []byte) File {
	return File{ext, int64(len(data)), func(to io.Writer) error { _, err := to.Write(data); return err }}
}
