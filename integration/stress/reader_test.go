package stress

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// A wish is a batch to read in a form, with the result.
type wish struct {
	Key  engine.Key
	Form layout.Form

	Errno unix.Errno // of the open; 0: it opened
	Wrong string     // what is wrong with its bytes; "": nothing
}

func (w *wish) String() string {
	if w.Errno != 0 {
		return fmt.Sprintf("%s.%s: %v", w.Key, w.Form, w.Errno)
	}
	return fmt.Sprintf("%s.%s: %s", w.Key, w.Form, cmp.Or(w.Wrong, "as it must be"))
}

// partReader reads the batches named by lines on its input: BRIEF. All batches of a line
// are open at the same time.
func partReader(args []string) error {
	c, err := newClient(args[0], 0, 0)
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var wishes []wish
		if err := json.Unmarshal(lines.Bytes(), &wishes); err != nil {
			return err
		}
		var files []*os.File
		for i := range wishes {
			w := &wishes[i]
			f, err := os.Open(c.path(w.Key, w.Form))
			if err != nil {
				w.Errno = err.(*os.PathError).Err.(unix.Errno)
				continue
			}
			files = append(files, f)
			w.Wrong = c.compare(f, w)
		}
		for _, f := range files {
			_ = f.Close()
		}
		text, err := json.Marshal(wishes)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", text)
	}
	return nil
}

// compare reads an open batch and describes what is wrong with it.
func (c *client) compare(f *os.File, w *wish) string {
	want, err := c.oracle.outcomes(c.oracle.byKey[w.Key], w.Form, false)
	if err != nil {
		return err.Error()
	}
	got, err := io.ReadAll(f)
	switch {
	case len(want) == 0:
		return "it opens, though it holds a corrupt file"
	case err != nil:
		return "read: " + err.Error()
	case string(got) != string(want[0]):
		return "its bytes are wrong"
	}
	return ""
}

// A reader is a process that reads batches on request.
type reader struct{ *testkit.Partner }

func startReader(brief string) (*reader, error) {
	p, err := testkit.StartPartner(partCommand("part-reader", brief), patience)
	return &reader{p}, err
}

// read has batches read.
func (r *reader) read(wishes []wish) ([]wish, error) {
	text, err := json.Marshal(wishes)
	if err == nil {
		err = r.Tell(string(text))
	}
	if err != nil {
		return nil, err
	}
	line, err := r.Line()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", text, err)
	}
	var got []wish
	return got, json.Unmarshal([]byte(line), &got)
}
