package stress

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// partCalm reads everything after all disturbances have ended: BRIEF. Every batch must open
// with the bytes of the undisturbed dataset, in every form, if not at once then soon.
func partCalm(args []string) error {
	c, err := newClient([]string{args[0], "0", "0"})
	if err != nil {
		return err
	}
	for i := range c.oracle.Batches {
		x := &c.oracle.Batches[i]
		for _, form := range layout.Forms() {
			if x.Victim < 0 && form != layout.NPY && c.random.IntN(8) > 0 {
				continue // a sample of the others suffices
			}
			if form == layout.JSON && (x.Victim >= 0 || x.Bad) {
				continue // it contains the reason why a file is bad
			}
			if err := c.calmly(x, form); err != nil {
				return c.report(err)
			}
		}
	}
	return nil
}

// calmly reads a batch until it is right. A batch prefetched during a disturbance may be
// served once more.
func (c *client) calmly(x *expected, form layout.Form) error {
	want, err := c.oracle.outcomes(x, form, false)
	if err != nil {
		return err
	}
	const tries = 200
	for try := 1; ; try++ {
		c.weather.busy(c.index, monotonic())
		got, err := os.ReadFile(c.path(x.Key, form))
		c.weather.busy(c.index, 0)
		wrong := ""
		switch {
		case len(want) == 0 && isErrno(err, unix.EIO):
		case err != nil:
			wrong = err.Error()
		case len(want) == 0:
			wrong = "it opens, though it holds a corrupt file"
		case string(got) != string(want[0].bytes):
			wrong = "its bytes are wrong"
		}
		if wrong == "" {
			return nil
		}
		c.note("in the calm, %s.%s: %s", x.Key, form, wrong)
		if try == tries {
			return found("when nothing is wrong any more, %s.%s, after %d tries: %s", x.Key, form, tries, wrong)
		}
		c.weather.add(c.index, retries, 1)
		c.elsewhere(x)
		time.Sleep(20 * time.Millisecond)
	}
}

// elsewhere opens another batch, so that a kept batch can be dropped.
func (c *client) elsewhere(x *expected) {
	y := c.oracle.Batches[c.random.IntN(len(c.oracle.Batches))].Key
	y.Shard = x.Key.Shard
	if f, err := os.Open(c.path(y, layout.NPY)); err == nil {
		_ = f.Close()
	}
}

func isErrno(err error, errno unix.Errno) bool {
	pathError, ok := err.(*os.PathError)
	return ok && pathError.Err == errno
}
