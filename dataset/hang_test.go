package dataset

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/hangfs"
)

// TestOpenWhereTheKernelHangs: in whatever call that is, Open ends with its context.
func TestOpenWhereTheKernelHangs(t *testing.T) {
	for _, what := range []string{"list", "open", "read", "manifest"} {
		content := []byte(image("jpeg", 10, 20, 1))
		f := hangfs.Mount(t, map[string][]byte{"a/1.jpg": content, "b/2.jpg": content, "m.csv": []byte("path\na/1.jpg\n")})
		p := newPlace(t)
		path := f.Dir
		if what == "manifest" {
			path, what = f.Dir+"/m.csv", "read"
		}
		d, err := Open(t.Context(), path, p.options())
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
		f.Hang(what)
		ctx, cancel := context.WithCancel(t.Context())
		opened := make(chan error, 1)
		o := p.options()
		o.CacheDir = ""
		go func() {
			_, err := Open(ctx, path, o)
			opened <- err
		}()
		<-f.Hung
		cancel()
		select {
		case err := <-opened:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("Open waits for the storage to %s", what)
		}
		f.Release()
	}
}
