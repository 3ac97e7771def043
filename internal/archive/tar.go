package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"strings"
)

// tar scans a tar: a WebDataset, or files in directories, or tars named after classes, as in
// ImageNet.
func (s *scanner) tar() error {
	if err := s.refuseCompressed(); err != nil {
		return err
	}
	g := &groups{scanner: s, image: -1}
	if err := s.eachEntry(0, s.size, func(h *tar.Header, at int64) error {
		if h.Typeflag == tar.TypeDir {
			s.addFolder(h.Name)
			return nil
		}
		name, err := clean(h.Name)
		switch {
		case err != nil:
			return err
		case !Hidden(name) && strings.HasSuffix(strings.ToLower(name), ".tar") && plain(h):
			return s.inner(name[:len(name)-len(".tar")], at, h.Size)
		case Hidden(name):
			s.ignore(name)
			return nil
		}
		return g.add(name, h, at)
	}); err != nil {
		return err
	}
	return g.finish()
}

// inner scans a tar inside a tar.
func (s *scanner) inner(dir string, from, size int64) error {
	s.addFolder(dir)
	return s.eachEntry(from, size, func(h *tar.Header, at int64) error {
		if h.Typeflag == tar.TypeDir {
			return nil
		}
		name, err := clean(h.Name)
		if err != nil {
			return err
		}
		if name = dir + "/" + name; len(name) > maxName {
			return fmt.Errorf("%s.tar: a name is longer than %d bytes", dir, maxName)
		}
		if Hidden(name) || !IsImage(name) {
			s.ignore(name)
			return nil
		}
		s.addFile(name, h, at)
		return nil
	})
}

// addFile adds a file of a tar as a sample.
func (s *scanner) addFile(name string, h *tar.Header, at int64) {
	switch {
	case plain(h):
		s.add(name, Place{Offset: at, Length: h.Size, Size: h.Size})
	case h.Typeflag == tar.TypeLink || h.Typeflag == tar.TypeSymlink:
		s.addProblem(name, "it is a link to "+h.Linkname+"; write the archive with --dereference --hard-dereference")
	default:
		s.addProblem(name, "it is stored as a sparse file; write the archive without --sparse")
	}
}

// plain says whether an entry is a file that is stored unchanged.
func plain(h *tar.Header) bool {
	sparse := false
	for key := range h.PAXRecords {
		sparse = sparse || strings.HasPrefix(key, "GNU.sparse.")
	}
	return h.Typeflag == tar.TypeReg && !sparse
}

// eachEntry calls f for the entries of a tar, except for devices, with the offset of each one's
// data. A tar may be several tars, one after the other.
func (s *scanner) eachEntry(from, size int64, f func(h *tar.Header, at int64) error) error {
	end := from + size
	for entries := 0; ; {
		part, last := io.NewSectionReader(s, from, end-from), from
		for r := tar.NewReader(part); ; entries++ {
			h, err := r.Next()
			at, _ := part.Seek(0, io.SeekCurrent) // it cannot fail
			at += from
			if err == io.EOF {
				from = at
				break
			}
			if err != nil {
				return fmt.Errorf("entry %d, at %d: %w", entries, at, err)
			}
			if last = at; plain(h) {
				last += (h.Size + tarBlock - 1) / tarBlock * tarBlock
			}
			switch h.Typeflag {
			case tar.TypeReg, tar.TypeDir, tar.TypeLink, tar.TypeSymlink, tar.TypeGNUSparse:
				if at > end || h.Size > end-at && plain(h) {
					return fmt.Errorf("entry %d, %q, is cut short", entries, h.Name)
				}
				if err := f(h, at); err != nil {
					return err
				}
			}
		}
		marked, err := s.isZero(from-tarBlock, last, end)
		if err != nil {
			return err
		}
		next, err := s.more(from, end)
		if next == 0 || err != nil {
			s.Unended = s.Unended || !marked
			return err
		}
		from = next
	}
}

const tarBlock = 512

// isZero says whether there is a block of zeros, searching from last on. One suffices as the end of
// a tar, though there should be two.
func (s *scanner) isZero(at, last, end int64) (bool, error) {
	if at < last || at+tarBlock > end {
		return false, nil
	}
	b, err := s.bytes(at, tarBlock)
	return err == nil && [tarBlock]byte(b) == [tarBlock]byte{}, err
}

// more returns where another tar begins after the end of one, 0 if there is none. Tars are padded
// with zeros, usually to 10 KiB. Other data after them is ignored.
func (s *scanner) more(from, end int64) (int64, error) {
	const padding = 1 << 20
	for at := from; at <= min(end-tarBlock, from+padding); at += tarBlock {
		zero, err := s.isZero(at, at, end)
		if err != nil {
			return 0, err
		}
		if zero {
			continue
		}
		_, err = tar.NewReader(io.NewSectionReader(s, at, end-at)).Next()
		switch {
		case s.err != nil:
			return 0, s.err
		case errors.Is(err, tar.ErrHeader): // garbage
			return 0, nil
		}
		return at, nil
	}
	return 0, nil
}
