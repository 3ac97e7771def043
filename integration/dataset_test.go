package integration

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/gen"
)

// makeDataset generates a dataset for one test.
func makeDataset(t testing.TB, o gen.Options) string {
	t.Helper()
	o.Dir = filepath.Join(scratch(t), "images")
	if err := gen.Write(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	return o.Dir
}

// mixedImages is a dataset of every format and many sizes, from 1x1 to 375x500, in
// five classes. All tests share it; nobody may change it.
func mixedImages(t testing.TB) string {
	t.Helper()
	return shared(t, makeMixed)
}

// photos is a small dataset of 500x375 photos in three classes. All tests share
// it; nobody may change it.
func photos(t testing.TB) string {
	t.Helper()
	return shared(t, makePhotos)
}

const mixedCount = 120

var makeMixed = sync.OnceValues(func() (string, error) {
	return generated("mixed", gen.Options{Images: mixedCount, Kind: gen.Mixed, Classes: 5, Seed: 3})
})

var makePhotos = sync.OnceValues(func() (string, error) {
	return generated("photos", gen.Options{Images: 24, Kind: gen.Photo, Classes: 3, Seed: 4})
})

func generated(name string, o gen.Options) (string, error) {
	o.Dir = filepath.Join(suite.dir, name)
	return o.Dir, gen.Write(context.Background(), o)
}

func shared(t testing.TB, make func() (string, error)) string {
	t.Helper()
	dir, err := make()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// writeFile writes a file and the directories above it.
func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
