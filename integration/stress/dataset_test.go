package stress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/gen"
)

// A pictures is a dataset that is disturbed, and an undisturbed copy.
type pictures struct {
	dir, pristine string
}

// smallPictures makes the dataset of all rounds, once: every format, small images, a few of
// them permanently corrupt.
var smallPictures = sync.OnceValues(func() (pictures, error) {
	p := pictures{filepath.Join(suite.dir, "images"), filepath.Join(suite.dir, "pristine")}
	if err := gen.Write(context.Background(), gen.Options{Dir: p.pristine, Images: 240, Kind: gen.Mixed, Classes: 4, Seed: 11}); err != nil {
		return p, err
	}
	files, err := filepath.Glob(filepath.Join(p.pristine, "*", "*"))
	if err != nil {
		return p, err
	}
	slices.Sort(files)
	for i, path := range files {
		if err := p.prepare(path, i%67 == 40); err != nil {
			return p, err
		}
	}
	return p, nil
})

// prepare removes a file if it is large, truncates it if it is to be corrupt, gives it an
// old time, and copies it to the directory that will be disturbed.
func (p pictures) prepare(path string, corrupt bool) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	h, err := decode.ReadHeader(data, true)
	if err != nil {
		return err
	}
	if max(h.Width, h.Height) > 128 {
		return os.Remove(path)
	}
	if corrupt {
		data = data[:len(data)*2/3]
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	if err := os.Chtimes(path, time.Time{}, pristineTime); err != nil {
		return err
	}
	name, err := filepath.Rel(p.pristine, path)
	if err != nil {
		return err
	}
	return p.restore(name)
}

var pristineTime = time.Unix(1_600_000_000, 0)

// restore restores a file with the same bytes and the same time. The file gets a new inode,
// so that a process that has the damaged one open cannot mistake it for this one, and takes the
// other one's place at once, so that nobody finds none.
func (p pictures) restore(name string) error {
	data, err := os.ReadFile(filepath.Join(p.pristine, name))
	if err != nil {
		return err
	}
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	next := filepath.Join(p.dir, ".next")
	if err := os.WriteFile(next, data, 0o644); err != nil {
		return err
	}
	if err := os.Chtimes(next, time.Time{}, pristineTime); err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return os.Rename(next, path)
}

// damages are ways to damage a file. Each changes its size or time.
var damages = []struct {
	name string
	do   func(path string, data []byte, random *rand.Rand) error
}{
	{"remove", func(path string, _ []byte, _ *rand.Rand) error { return os.Remove(path) }},
	{"truncate", func(path string, data []byte, random *rand.Rand) error {
		return os.Truncate(path, random.Int64N(int64(len(data))))
	}},
	{"overwrite", func(path string, data []byte, random *rand.Rand) error {
		spoilt := slices.Clone(data)
		for i := range 16 {
			spoilt[random.IntN(len(spoilt))] ^= byte(i + 1)
		}
		return os.WriteFile(path, spoilt, 0o644)
	}},
	{"grow", func(path string, data []byte, _ *rand.Rand) error {
		return os.WriteFile(path, append(slices.Clone(data), data...), 0o644)
	}},
	{"become a directory", func(path string, _ []byte, _ *rand.Rand) error {
		return errors.Join(os.Remove(path), os.Mkdir(path, 0o755))
	}},
	{"become a link to itself", func(path string, _ []byte, _ *rand.Rand) error {
		return errors.Join(os.Remove(path), os.Symlink(filepath.Base(path), path))
	}},
}

// spoil damages an intact file in a random way and returns the name of the damage.
func (p pictures) spoil(name string, random *rand.Rand) (string, error) {
	data, err := os.ReadFile(filepath.Join(p.pristine, name))
	if err != nil {
		return "", err
	}
	d := damages[random.IntN(len(damages))]
	if err := d.do(filepath.Join(p.dir, name), data, random); err != nil {
		return "", fmt.Errorf("%s: %w", d.name, err)
	}
	return d.name, nil
}
