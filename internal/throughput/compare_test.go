package throughput

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBecause: the reading process itself only knows that a batch does not open.
func TestBecause(t *testing.T) {
	const line = `{"time":"2000-01-01T00:00:00Z","path":"b/1\n.png","id":3,"reason":"corrupt image"}` + "\n"
	failed := error(&os.PathError{Op: "open", Path: "/tmp/x/batch-00000.nhwc", Err: unix.EIO})
	for _, test := range []struct {
		err   error
		lines string
		want  string
	}{
		{failed, line + line, "b/1\n.png: corrupt image"},
		{failed, "", failed.Error()},
		{failed, "?\n", failed.Error()},
		{errors.New("killed"), line, "killed"},
	} {
		if got := because(test.err, []byte(test.lines)); got.Error() != test.want {
			t.Errorf("%v: got %v, want %s", test.err, got, test.want)
		}
	}
	if err := because(nil, []byte(line)); err != nil { // as with --on-error replace
		t.Error(err)
	}
}
