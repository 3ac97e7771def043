package gen

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// stage is a hidden directory in which a dataset is made. It lies inside the final place, since
// only there a rename is certain to stay on one file system.
type stage struct {
	dir   string
	tmp   string
	fresh bool // dir did not exist before
}

const stagePattern = ".batchfs-gen-*"

// newStage checks that dir may be filled and makes the hidden directory.
func newStage(dir string) (*stage, error) {
	s := &stage{dir: dir}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.fresh = true
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case len(entries) > 0:
		return nil, fmt.Errorf("%s: %w: it holds %s", dir, ErrNotEmpty, entries[0].Name())
	}
	if s.tmp, err = os.MkdirTemp(dir, stagePattern); err != nil {
		s.discard()
		return nil, err
	}
	return s, nil
}

// ErrNotEmpty is the error of Write for a directory that is not empty.
var ErrNotEmpty = errors.New("directory is not empty")

// publish moves the result to its final place.
func (s *stage) publish() error {
	entries, err := os.ReadDir(s.tmp)
	if err != nil {
		return err
	}
	for i, e := range entries {
		if err := os.Rename(filepath.Join(s.tmp, e.Name()), filepath.Join(s.dir, e.Name())); err != nil {
			for _, moved := range entries[:i] {
				os.RemoveAll(filepath.Join(s.dir, moved.Name()))
			}
			return err
		}
	}
	return os.Remove(s.tmp)
}

// discard removes what was made, and the directory itself if it did not exist before. It ignores
// errors, since it follows another error.
func (s *stage) discard() {
	if s.tmp != "" {
		os.RemoveAll(s.tmp)
	}
	if s.fresh {
		os.Remove(s.dir)
	}
}
