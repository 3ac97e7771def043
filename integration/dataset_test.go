package integration

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/gen"
)

// mixedImages is a dataset of every format and many sizes, from 1x1 to 375x500, in five
// classes, each with one large image. All tests share it and must not change it.
func mixedImages(t testing.TB) string {
	t.Helper()
	return shared(t, makeMixed)
}

// photos is a small dataset of 500x375 photos in three classes. All tests share it and must
// not change it.
func photos(t testing.TB) string {
	t.Helper()
	return shared(t, makePhotos)
}

var makeMixed = sync.OnceValues(func() (string, error) {
	dir, err := generated("mixed", gen.Options{Images: 120, Kind: gen.Mixed, Classes: 5, Seed: 3})
	if err != nil {
		return "", err
	}
	return dir, thin(dir)
})

// thin removes all large images of each class but the first, so that most batches are small
// and every way of reading them is fast.
func thin(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	has := map[string]bool{}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h, err := decode.ReadHeader(data, true)
		if err != nil {
			return err
		}
		if class := filepath.Dir(path); max(h.Width, h.Height) > 255 {
			if has[class] {
				err = os.Remove(path)
			}
			has[class] = true
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var makePhotos = sync.OnceValues(func() (string, error) {
	return generated("photos", gen.Options{Images: 12, Kind: gen.Photo, Classes: 3, Seed: 4})
})

func generated(name string, o gen.Options) (string, error) {
	o.Dir = filepath.Join(suite.dir, name)
	return o.Dir, gen.Write(context.Background(), o)
}

func shared(t testing.TB, make func() (string, error)) string {
	t.Helper()
	dir, err := make()
	check(t, err)
	return dir
}

// writeFile writes a file and creates its parent directories.
func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, data, 0o644))
}
