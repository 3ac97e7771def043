package profile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBecause: the reading process itself only knows that a batch does not open. Of what is bad in
// it, the first is named.
func TestBecause(t *testing.T) {
	const ok, bad = `{"id":1,"path":"a.png","status":"ok"}`, `{"id":3,"path":"b/1\n.png","status":"corrupt","reason":"corrupt image"}`
	path := filepath.Join(t.TempDir(), "batch-00000")
	failed := error(&os.PathError{Op: "open", Path: path + ".nhwc", Err: unix.EIO})
	for _, test := range []struct {
		err     error
		samples string
		want    string
	}{
		{failed, ok + "," + bad + "," + strings.Replace(bad, "b/", "c/", 1), "b/1\n.png: corrupt image"},
		{failed, ok, failed.Error()},
		{failed, "?", failed.Error()},
		{errors.New("killed"), bad, "killed"},
	} {
		if err := os.WriteFile(path+".json", []byte(`{"samples":[`+test.samples+`]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := because(test.err); got.Error() != test.want {
			t.Errorf("%v: got %v, want %s", test.err, got, test.want)
		}
	}
	if err := because(nil); err != nil { // as with --on-error replace
		t.Error(err)
	}
}
