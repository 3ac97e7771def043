package archive

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// zip scans a zip of files in directories.
func (s *scanner) zip() error {
	s.Kind = "zip"
	table := &kept{s.window, 4}
	r, err := zip.NewReader(table, s.size)
	table.times = 0
	if err != nil {
		return err
	}
	for _, f := range r.File {
		name := f.Name
		if f.CreatorVersion>>8 == 0 { // MS-DOS: some programs write names as Windows does
			name = strings.ReplaceAll(name, `\`, "/")
		}
		if strings.HasSuffix(name, "/") {
			s.addFolder(name)
			continue
		}
		if name, err = clean(name); err != nil {
			return err
		}
		if Hidden(name) || !IsImage(name) {
			s.ignore(name)
			continue
		}
		if err := s.addZipped(name, f); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	if err := s.apart(); err != nil {
		return err
	}
	s.files()
	return nil
}

func (s *scanner) addZipped(name string, f *zip.File) error {
	const encrypted = 1
	switch {
	case f.Flags&encrypted != 0:
		return errors.New("it is encrypted; unpack the archive")
	case f.Mode()&fs.ModeSymlink != 0:
		s.addProblem(name, "it is a link; write the archive without -y")
		return nil
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return fmt.Errorf("it is compressed with method %d, which is not supported; write the archive with zip -0", f.Method)
	case f.UncompressedSize64 > maxBlock, f.CompressedSize64 > uint64(s.size),
		f.Method == zip.Store && f.CompressedSize64 != f.UncompressedSize64:
		return fmt.Errorf("sizes %d and %d make no sense", f.CompressedSize64, f.UncompressedSize64)
	}
	offset, err := f.DataOffset()
	if err != nil {
		return err
	}
	at := Place{Offset: offset, Length: int64(f.CompressedSize64), Size: int64(f.UncompressedSize64)}
	if f.Method == zip.Deflate {
		at.Coding, at.Block = Deflate, at.Size
	}
	if f.CRC32 != 0 || f.Method == zip.Deflate { // not every program writes a checksum
		at.CRC, at.Sum = f.CRC32, IEEE
	}
	s.add(name, at)
	return nil
}

// apart refuses files that share bytes: a small archive could claim to hold any number of large
// ones.
func (s *scanner) apart() error {
	order := make([]Place, len(s.Samples))
	for i := range order {
		order[i] = s.Samples[i].Place
	}
	slices.SortFunc(order, func(a, b Place) int { return cmp.Compare(a.Offset, b.Offset) })
	end := int64(0)
	for _, p := range order {
		if p.Length > 0 && p.Offset < end {
			return fmt.Errorf("two files overlap at %d", p.Offset)
		}
		end = max(end, p.Offset+p.Length)
	}
	return nil
}
