package stress

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

func init() { parts["part-reader"] = partReader }

// A wish is a batch to read in a form, with the result.
type wish struct {
	Key  engine.Key
	Form layout.Form

	Errno unix.Errno // of the open; 0: it opened
	Wrong string     // what is wrong with its bytes; "": nothing
}

func (w *wish) String() string {
	switch {
	case w.Errno != 0:
		return fmt.Sprintf("%s.%s: %v", w.Key, w.Form, w.Errno)
	case w.Wrong != "":
		return fmt.Sprintf("%s.%s: %s", w.Key, w.Form, w.Wrong)
	}
	return fmt.Sprintf("%s.%s: as it must be", w.Key, w.Form)
}

// partReader reads the batches named by lines on its input: BRIEF. All batches of a line
// are open at the same time.
func partReader(args []string) error {
	c, err := newClient([]string{args[0], "0", "0"})
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var wishes []wish
		if err := json.Unmarshal(lines.Bytes(), &wishes); err != nil {
			return err
		}
		var fds []int
		for i := range wishes {
			w := &wishes[i]
			fd, err := c.openQuietly(c.path(w.Key, w.Form), 0)
			if err != nil {
				w.Errno = err.(unix.Errno)
				continue
			}
			fds = append(fds, fd)
			w.Wrong = c.compare(fd, w)
		}
		for _, fd := range fds {
			_ = unix.Close(fd)
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
func (c *client) compare(fd int, w *wish) string {
	all, err := c.oracle.outcomes(c.oracle.byKey[w.Key], w.Form, false)
	if err != nil {
		return err.Error()
	}
	if len(all) == 0 {
		return "it opens, though it holds a corrupt file"
	}
	got, err := io.ReadAll(io.NewSectionReader(preader(fd), 0, 1<<40))
	if err != nil {
		return "read: " + err.Error()
	}
	if string(got) != string(all[0].bytes) {
		return "its bytes are wrong"
	}
	return ""
}

type preader int

func (p preader) ReadAt(b []byte, offset int64) (int, error) {
	for {
		n, err := unix.Pread(int(p), b, offset)
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 && len(b) > 0 {
			err = io.EOF
		}
		return max(n, 0), err
	}
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
