package convert

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/hangfs"
)

// TestStorageThatHangs: Write returns when its context is done, and another Write continues
// when the storage responds again.
func TestStorageThatHangs(t *testing.T) {
	files := map[string][]byte{"a/1.png": pngOf(t, 8, 9, false), "a/2.png": pngOf(t, 9, 8, false), "b/3.png": pngOf(t, 5, 5, false)}
	f := hangfs.Mount(t, t.TempDir(), files)
	ds := open(t, f.Dir)
	out := filepath.Join(t.TempDir(), "out")
	f.Hang("read")
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() {
		_, err := Write(ctx, ds, out, Options{Shares: Shares{Raw: 1}})
		written <- err
	}()
	<-f.Hung
	cancel()
	select {
	case err := <-written:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Write waits for the storage")
	}
	f.Release()
	for end := time.Now().Add(time.Minute); ; {
		r, err := Write(t.Context(), ds, out, Options{Shares: Shares{Raw: 1}})
		if errors.Is(err, ErrBusy) && time.Now().Before(end) { // the abandoned call is just ending
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil || r.Raw != 3 {
			t.Errorf("%+v, %v", r, err)
		}
		return
	}
}
