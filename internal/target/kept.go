package target

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/owned"
)

// What a Builder was told can be kept in a file, so that annotations need not be read again:
//
//	mark                       8 bytes
//	CRC-32C of all that follows 4 bytes
//	length of the head         4 bytes
//	head                       JSON
//	objects                    a record of 32 bytes each, by image
//	ends of keypoints          4 bytes for each object, if any has keypoints
//	keypoints                  12 bytes each
//	visible parts              20 bytes each
//	shapes                     8 bytes each: image and length
//	data of shapes
//	images
//
// Numbers are little-endian. The file is mapped: objects and shapes stay in it.

const (
	keptMark = "bfstgt01"
	keptHead = len(keptMark) + 8
	// mostHead bounds the head, and mapChunk what is one chunk of memory of a mapped file.
	mostHead = 64 << 20
	mapChunk = 1 << 30
)

// ErrKept means that a kept file is damaged, or none.
var ErrKept = errors.New("is damaged, or cut off")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// keptCounts are in the head.
type keptCounts struct {
	About      json.RawMessage
	Objects    int
	HasEnds    bool
	Keypoints  int
	Visible    int
	Shapes     int
	ShapeBytes int64
	Images     int
	ImageBytes int64
	Arrays     int `json:",omitempty"` // columns of
}

// Save keeps what the Builder was told in a file, which replaces the one at a path, with what the
// caller wants to know about it.
func (b *Builder) Save(path string, about json.RawMessage) error {
	if b.err != nil {
		return b.err
	}
	first, order := b.byImage()
	b.sortShapes()
	images := b.encodeImages(first, order)
	n := keptCounts{
		About: about, Objects: b.objects, HasEnds: b.ends != nil, Keypoints: len(b.keypoints),
		Visible: len(b.visible), Shapes: len(b.shapes), Images: len(b.images), ImageBytes: int64(len(images)), Arrays: len(b.arrays),
	}
	for _, s := range b.shapes {
		n.ShapeBytes += int64(s.size)
	}
	head, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return owned.Replace(path, func(f *os.File) error {
		if _, err := f.Seek(int64(keptHead), io.SeekStart); err != nil {
			return err
		}
		sum := crc32.New(castagnoli)
		var length [4]byte
		binary.LittleEndian.PutUint32(length[:], uint32(len(head)))
		sum.Write(length[:])
		out := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<20)
		_, _ = out.Write(head) // the first error stays
		b.writeSections(out, order)
		_, _ = out.Write(images)
		if err := out.Flush(); err != nil {
			return err
		}
		begin := binary.LittleEndian.AppendUint32([]byte(keptMark), sum.Sum32())
		_, err := f.WriteAt(append(begin, length[:]...), 0)
		return err
	})
}

// writeSections writes what follows the head, but for the images. Objects get new numbers, in their
// order.
func (b *Builder) writeSections(out *bufio.Writer, order []uint32) {
	le := binary.LittleEndian
	var buf []byte
	put := func(values ...uint32) {
		buf = buf[:0]
		for _, v := range values {
			buf = le.AppendUint32(buf, v)
		}
		_, _ = out.Write(buf)
	}
	floats := func(values ...float32) {
		for _, v := range values {
			put(math.Float32bits(v))
		}
	}
	each := func(f func(i, place int)) {
		for place := range b.objects {
			if order == nil {
				f(place, place)
			} else {
				f(int(order[place]), place)
			}
		}
	}
	each(func(i, _ int) { _, _ = out.Write(b.record(i)) })
	if b.ends != nil {
		end := 0
		each(func(i, _ int) {
			end += len(b.object(i).Keypoints)
			put(uint32(end))
		})
		each(func(i, _ int) {
			for _, p := range b.object(i).Keypoints {
				floats(p.X, p.Y, p.V)
			}
		})
	}
	if b.visible != nil {
		each(func(i, place int) {
			if v := b.object(i).Visible; v != nil {
				put(uint32(place))
				floats(v[:]...)
			}
		})
	}
	for _, s := range b.shapes {
		put(uint32(s.image), uint32(s.size))
	}
	for _, s := range b.shapes {
		_, _ = out.Write(b.memory.at(s.at, int(s.size)))
	}
}

// encodeImages are the images, with their digests.
func (b *Builder) encodeImages(first, order []uint32) (out []byte) {
	text := func(s string) { out = append(binary.AppendUvarint(out, uint64(len(s))), s...) }
	next := 0 // shape
	for i := range b.images {
		m := &b.images[i]
		m.sum = sumOf(m, int(first[i+1]-first[i]), func(k int) Object {
			at := int(first[i]) + k
			if order != nil {
				at = int(order[at])
			}
			return b.object(at)
		}, func(f func([]byte)) {
			for ; next < len(b.shapes) && int(b.shapes[next].image) == i; next++ {
				f(b.memory.at(b.shapes[next].at, int(b.shapes[next].size)))
			}
		})
		out = binary.AppendUvarint(out, uint64(m.height))
		out = binary.AppendUvarint(out, uint64(m.width))
		out = append(out, bit(m.oriented), bit(m.text != nil))
		for _, s := range []string{m.path, m.mask, string(m.text), m.bad, string(m.sum)} {
			text(s)
		}
		for column := range b.arrays {
			text(b.array(i, column))
		}
	}
	return out
}

// Kept reports whether the Builder is of a kept file.
func (b *Builder) Kept() bool { return b.memory.whole != nil }

// Load returns a Builder that was kept, and what the caller wanted to know about it. An error of a
// file that is damaged wraps ErrKept.
func Load(path string) (b *Builder, about json.RawMessage, err error) {
	f, size, err := owned.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if size < int64(keptHead) || size > math.MaxInt {
		return nil, nil, fmt.Errorf("%s: %w", path, ErrKept)
	}
	whole, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	b = NewBuilder("")
	b.memory.whole = whole
	if about, err = b.open(whole); err != nil {
		_ = b.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, about, nil
}

// open takes what is in a file.
func (b *Builder) open(whole []byte) (json.RawMessage, error) {
	le := binary.LittleEndian
	rest := whole[len(keptMark)+4:]
	sum := le.Uint32(whole[len(keptMark):])
	if string(whole[:len(keptMark)]) != keptMark || crc32.Checksum(rest, castagnoli) != sum {
		return nil, ErrKept
	}
	var n keptCounts
	length := le.Uint32(rest)
	if rest = rest[4:]; length > mostHead || int64(length) > int64(len(rest)) {
		return nil, ErrKept
	}
	if json.Unmarshal(rest[:length], &n) != nil {
		return nil, ErrKept
	}
	rest = rest[length:]
	good := true
	section := func(count int64, each int64) []byte {
		if good = good && count >= 0 && count <= int64(len(rest))/each; !good {
			return nil
		}
		var part []byte
		part, rest = rest[:count*each:count*each], rest[count*each:]
		return part
	}
	objects, ends := section(int64(n.Objects), recordBytes), []byte(nil)
	if n.HasEnds {
		ends = section(int64(n.Objects), 4)
	}
	points, seen := section(int64(n.Keypoints), 12), section(int64(n.Visible), 20)
	shapes, drawn := section(int64(n.Shapes), 8), section(n.ShapeBytes, 1)
	images := section(n.ImageBytes, 1)
	to := opening{b}
	good = good && len(rest) == 0 && to.openImages(images, n.Images, n.Arrays) && to.openObjects(objects)
	good = good && to.openPoints(ends, points) && to.openVisible(seen) && to.openShapes(shapes, drawn)
	if !good {
		return nil, ErrKept
	}
	return n.About, nil
}

// opening takes the sections of a file, and checks all that others rely on.
type opening struct{ *Builder }

// addChunk adds a part of the mapped file to those of the memory.
func (b opening) addChunk(part []byte) {
	b.memory.chunks = append(b.memory.chunks, part)
	b.memory.mapped += int64(len(part))
	b.memory.used = len(part)
}

func (b opening) openObjects(data []byte) bool {
	const block = blockOf * recordBytes
	b.objects = len(data) / recordBytes
	for at := 0; at < len(data); at += block {
		if at%mapChunk == 0 {
			b.addChunk(data[at:min(at+mapChunk, len(data))])
		}
		b.records = append(b.records, place{uint32(len(b.memory.chunks) - 1), uint32(at % mapChunk)})
	}
	last := 0
	for i := range b.objects {
		of := b.imageOf(i)
		if of < last || of >= len(b.images) {
			return false
		}
		last = of
	}
	return true
}

func (b opening) openPoints(ends, points []byte) bool {
	le := binary.LittleEndian
	for ; len(points) > 0; points = points[12:] {
		f := func(i int) float32 { return math.Float32frombits(le.Uint32(points[i:])) }
		b.keypoints = append(b.keypoints, Keypoint{f(0), f(4), f(8)})
	}
	last := uint32(0)
	for ; len(ends) > 0; ends = ends[4:] {
		end := le.Uint32(ends)
		if end < last || int(end) > len(b.keypoints) {
			return false
		}
		b.most, last = max(b.most, int(end-last)), end
		b.ends = append(b.ends, end)
	}
	return int(last) == len(b.keypoints)
}

func (b opening) openVisible(data []byte) bool {
	le := binary.LittleEndian
	for ; len(data) > 0; data = data[20:] {
		v := visible{object: le.Uint32(data)}
		for k := range v.box {
			v.box[k] = math.Float32frombits(le.Uint32(data[4+4*k:]))
		}
		if n := len(b.visible); int(v.object) >= b.objects || n > 0 && b.visible[n-1].object >= v.object {
			return false
		}
		b.visible = append(b.visible, v)
	}
	return true
}

func (b opening) openShapes(list, data []byte) bool {
	le := binary.LittleEndian
	var at, chunk int // in data: of the shape, and of the chunk that it is in
	for ; len(list) > 0; list = list[8:] {
		s := shape{image: int32(le.Uint32(list)), size: int32(le.Uint32(list[4:]))}
		n := len(b.shapes)
		if s.image < 0 || int(s.image) >= len(b.images) || n > 0 && s.image < b.shapes[n-1].image ||
			s.size < 0 || int(s.size) > len(data)-at || !isShape(data[at:at+int(s.size)]) {
			return false
		}
		if n == 0 || at-chunk > mapChunk {
			chunk = at
			b.addChunk(data[at:])
		}
		s.at = place{uint32(len(b.memory.chunks) - 1), uint32(at - chunk)}
		b.shapes = append(b.shapes, s)
		at += int(s.size)
	}
	return at == len(data)
}

// isShape reports whether data is an encoded shape.
func isShape(data []byte) bool {
	le := binary.LittleEndian
	if len(data) < 8 || len(data)%4 != 0 {
		return false
	}
	polygons := le.Uint32(data[4:])
	if data = data[8:]; polygons == math.MaxUint32 {
		return true
	}
	if int64(polygons) > int64(len(data)/4) {
		return false
	}
	total := int64(0)
	for k := range int(polygons) {
		n := le.Uint32(data[4*k:])
		if n%2 != 0 || n < 2 {
			return false
		}
		total += 8 * int64(n)
	}
	return int64(len(data)) == 4*int64(polygons)+total
}

func (b opening) openImages(data []byte, n, arrays int) bool {
	if n < 0 || n > len(data) || arrays < 0 {
		return false
	}
	good := true
	number := func() (v uint64) {
		v, size := binary.Uvarint(data)
		if good = good && size > 0; good {
			data = data[size:]
		}
		return v
	}
	text := func() (s []byte) {
		length := number()
		if good = good && length <= uint64(len(data)); good {
			s, data = data[:length:length], data[length:]
		}
		return s
	}
	b.images, b.byPath = make([]image, 0, n), make(map[string]int, n)
	for i := range n {
		m := image{height: int32(number()), width: int32(number())}
		if good = good && len(data) >= 2; !good {
			return false
		}
		oriented, texted := data[0] == 1, data[1] == 1
		data = data[2:]
		m.oriented, m.path, m.mask = oriented, string(text()), string(text())
		if m.text = text(); !texted {
			m.text = nil
		}
		m.bad, m.sum = string(text()), text()
		for column := 0; column < arrays && good; column++ {
			if path := text(); len(path) > 0 {
				b.Array(i, column, string(path))
			}
		}
		_, twice := b.byPath[m.path]
		if twice || !good || m.height < 0 || m.width < 0 || len(m.text) > maxText {
			return false
		}
		b.byPath[m.path] = i
		b.images = append(b.images, m)
	}
	return len(data) == 0
}
