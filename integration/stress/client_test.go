package stress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/layout"
)

// A brief tells clients about their mount. It is stored in a file.
type brief struct {
	Dir      string // for all files
	Mount    string
	Settings settings
	Seed     uint64
}

func newBrief(dir string, s settings, seed uint64) brief {
	return brief{dir, filepath.Join(dir, "mnt"), s, seed}
}

func (b *brief) file(name string) string { return filepath.Join(b.Dir, name) }

// prepare makes the files that clients need: the oracle, the weather, and the brief.
func (b *brief) prepare(p pictures, random *rand.Rand) (o *oracle, w *weather, err error) {
	if err = os.MkdirAll(b.Dir, 0o755); err == nil {
		o, err = makeOracle(p, b.Settings, b.file("oracle"), random)
	}
	if err == nil {
		b.Settings.limitTo(o.largest)
		w, err = openWeather(b.file("weather"))
	}
	if err == nil {
		err = store(b.file("brief.json"), b)
	}
	return o, w, err
}

// store writes a value to a file, as JSON.
func store(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// load reads what store wrote.
func load(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// A client is a process that reads a mount.
type client struct {
	brief
	index, life int // client number, and how often it was killed before
	oracle      *oracle
	weather     *weather
	random      *rand.Rand
	logging     sync.Mutex
	held        []*holding
	at          engine.Key // the batch to read next
	post        int        // socket on which it receives files from other clients
}

// A finding is an error in batchfs.
type finding struct{ text string }

func (f *finding) Error() string { return f.text }

func found(format string, args ...any) error { return &finding{fmt.Sprintf(format, args...)} }

// newClient reads the brief of a client.
func newClient(path string, index, life int) (c *client, err error) {
	c = &client{index: index, life: life, post: -1}
	if err := load(path, &c.brief); err != nil {
		return nil, err
	}
	if c.oracle, err = loadOracle(c.file("oracle")); err != nil {
		return nil, err
	}
	if c.weather, err = openWeather(c.file("weather")); err != nil {
		return nil, err
	}
	c.random = rand.New(rand.NewPCG(c.Seed, uint64(c.index)<<32|uint64(c.life)))
	debug.SetPanicOnFault(true)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1) // it interrupts, and does nothing else
	return c, nil
}

// partClient is a client: BRIEF INDEX LIFE. It ends when it is told to stop, or when it has
// a finding, which it prints.
func partClient(args []string) error {
	index, _ := strconv.Atoi(args[1])
	life, _ := strconv.Atoi(args[2])
	c, err := newClient(args[0], index, life)
	if err != nil {
		return err
	}
	if err := c.listen(); err != nil {
		return err
	}
	c.jump()
	for !c.weather.stopped() {
		if err := c.act(); err != nil {
			return c.report(err)
		}
	}
	for len(c.held) > 0 {
		if err := c.recheck(len(c.held) - 1); err != nil {
			return c.report(err)
		}
		c.letGo(len(c.held) - 1)
	}
	return nil
}

// report prints a finding, or returns an error of the client itself.
func (c *client) report(err error) error {
	c.note("%v", err)
	var f *finding
	if errors.As(err, &f) {
		fmt.Printf("client %d, life %d: %s\n", c.index, c.life, f.text)
		return nil
	}
	return err
}

// note logs what the client does.
func (c *client) note(format string, args ...any) {
	c.logging.Lock()
	defer c.logging.Unlock()
	fmt.Fprintf(os.Stderr, "%12d client %d: %s\n", monotonic()/1000, c.index, fmt.Sprintf(format, args...))
}

// act performs one action, and sometimes checks a held batch.
func (c *client) act() (err error) {
	a := choose(c.random, clientDeeds)
	c.weather.busy(c.index, monotonic())
	defer c.weather.busy(c.index, 0)
	c.weather.add(c.index, actions, 1)
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s: %v\n%s", a.name, cause, debug.Stack())
		}
	}()
	c.note("%s", a.name)
	if err := c.collect(); err != nil {
		return err
	}
	if err := a.do(c); err != nil {
		return fmt.Errorf("%s: %w", a.name, err)
	}
	if n := len(c.held); n > 0 && chance(c.random, 0.3) {
		return c.recheck(c.random.IntN(n))
	}
	return nil
}

// jump goes to a random batch.
func (c *client) jump() { c.at = c.oracle.Batches[c.random.IntN(len(c.oracle.Batches))].Key }

// next returns the batch to read: mostly the one after the last.
func (c *client) next() *expected {
	if chance(c.random, 0.1) {
		c.jump()
	}
	x := c.oracle.byKey[c.at]
	c.at.Batch++
	if c.oracle.byKey[c.at] == nil {
		c.at.Batch = 0
		c.at.Epoch = stressEpochs[(slices.Index(stressEpochs, c.at.Epoch)+1)%len(stressEpochs)]
	}
	return x
}

var largeForms = slices.DeleteFunc(layout.Forms(), func(f layout.Form) bool { return !f.Large() })

// form returns the form to read a batch in: mostly the same one.
func (c *client) form() layout.Form {
	if chance(c.random, 0.7) {
		return layout.NPY
	}
	return largeForms[c.random.IntN(len(largeForms))]
}

func (c *client) path(k engine.Key, f layout.Form) string {
	return filepath.Join(c.Mount, k.String()+"."+f.Ext())
}

// A holding is an open file or mapping of a batch.
type holding struct {
	x       *expected
	form    layout.Form
	may     [][]byte // possible contents; narrowed down by what was read
	size    int
	opened  moment
	fd      int    // -1: closed
	mapping []byte // nil: not mapped
}

// damaged reports whether a batch's victim was ever damaged in this round.
func (c *client) damaged(x *expected) bool {
	return x.Victim >= 0 && c.weather.begun(damage0+condition(x.Victim)) > 0
}

// open opens a batch. It returns nil for a failure that is allowed.
func (c *client) open(x *expected, form layout.Form, flags int) (*holding, error) {
	return c.openBy(x, form, func(path string) (fd int, err error) {
		for range 1000 { // Go's own signals interrupt system calls, too
			if fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0); err != unix.EINTR {
				break
			}
		}
		return fd, err
	}, false)
}

// openBy opens a batch with open. An unexplained EIO or ENOMEM may come from the recent past: a
// prefetched batch that failed. It must not persist.
func (c *client) openBy(x *expected, form layout.Form, open func(path string) (int, error), interrupted bool) (*holding, error) {
	const tries = 100
	for try := 1; ; try++ {
		before := c.weather.now()
		fd, err := open(c.path(x.Key, form))
		if err == nil {
			c.weather.add(c.index, opened, 1)
			may, err := c.oracle.outcomes(x, form, c.damaged(x))
			if err != nil {
				return nil, err
			}
			if len(may) == 0 {
				return nil, found("%s.%s opens, though it holds a corrupt file", x.Key, form)
			}
			return &holding{x: x, form: form, may: may, size: len(may[0]), opened: before, fd: fd}, nil
		}
		if err == unix.ENOMEM {
			c.weather.add(c.index, noMemory, 1)
		} else {
			c.weather.add(c.index, failures, 1)
		}
		if c.explained(x, form, err, before) || interrupted && err == unix.EINTR {
			c.note("open %s.%s: %v", x.Key, form, err)
			return nil, nil
		}
		if past := c.disturbed() && (err == unix.EIO || err == unix.ENOMEM); !past || try == tries {
			return nil, found("open %s.%s: %v, %d times, and nothing explains it", x.Key, form, err, try)
		}
		c.note("open %s.%s: %v, which is not of now", x.Key, form, err)
		c.weather.add(c.index, retries, 1)
		time.Sleep(20 * time.Millisecond)
	}
}

// disturbed reports whether anything was ever wrong in this round.
func (c *client) disturbed() bool {
	for k := range conditions {
		if c.weather.begun(k) > 0 {
			return true
		}
	}
	return false
}

// explained reports whether an open may fail with this error, given what was wrong since
// the open began.
func (c *client) explained(x *expected, form layout.Form, err error, before moment) bool {
	since := func(k condition) bool { return c.weather.since(before, k) }
	if since(adrift) {
		return true
	}
	switch err {
	case unix.EIO:
		spoilt := x.Victim >= 0 && since(damage0+condition(x.Victim)) && (c.Settings.Catalog.OnError == engine.Fail || x.BadWithout)
		return spoilt || since(stormy) || since(shortage) || c.oracle.isBad(x.Key, form)
	case unix.ENOMEM:
		return c.Settings.tight() || since(shortage)
	}
	return false
}

// verify compares bytes read at an offset with the possible contents.
func (c *client) verify(h *holding, got []byte, offset int, how string) error {
	c.weather.add(c.index, checked, len(got))
	left := slices.DeleteFunc(slices.Clone(h.may), func(o []byte) bool {
		return offset+len(got) > len(o) || !bytes.Equal(got, o[offset:offset+len(got)])
	})
	if len(left) > 0 {
		h.may = left
		return nil
	}
	at := 0
	if want := h.may[0]; offset+len(got) <= len(want) {
		for at < len(got)-1 && got[at] == want[offset+at] {
			at++
		}
	}
	_ = os.WriteFile(c.file(fmt.Sprintf("wrong-%d", c.index)), got, 0o644)
	wrong := got[at:min(at+48, len(got))]
	return found("%s of %s.%s: %d bytes at %d are wrong, the first at %d: %x... (%d outcomes were possible)",
		how, h.x.Key, h.form, len(got), offset, offset+at, wrong, len(h.may))
}

// fill reads a range with read and verifies it. A failing read is a finding unless the
// daemon is gone.
func (c *client) fill(h *holding, offset, n int, how string, read func(p []byte, offset int64) (int, error)) error {
	p := make([]byte, n)
	for done := 0; done < n; {
		k, err := read(p[done:], int64(offset+done))
		if err == unix.EINTR {
			continue
		}
		if err != nil && err != io.EOF {
			if c.excused(h) {
				return nil
			}
			return found("%s of %s.%s at %d: %v", how, h.x.Key, h.form, offset+done, err)
		}
		if k == 0 {
			p = p[:done]
			break
		}
		done += k
	}
	if len(p) < min(n, h.size-offset) {
		return found("%s of %s.%s ends at %d, not at %d", how, h.x.Key, h.form, offset+len(p), min(offset+n, h.size))
	}
	return c.verify(h, p, offset, how)
}

// excused reports whether an open batch need not be readable any more, because its daemon may be
// gone and the kernel may not have the batch.
func (c *client) excused(h *holding) bool {
	served := c.Settings.passthrough() && h.form.Large() && c.weather.begun(shortage) == 0
	return !served && c.weather.since(h.opened, adrift)
}

// look verifies a mapping.
func (c *client) look(h *holding, from, to int, how string) (err error) {
	defer func() {
		if cause := recover(); cause != nil && !c.excused(h) {
			err = found("%s of %s.%s: %v", how, h.x.Key, h.form, cause)
		}
	}()
	return c.verify(h, bytes.Clone(h.mapping[from:to]), from, how)
}

// recheck verifies a held batch again.
func (c *client) recheck(i int) error {
	h := c.held[i]
	if h.mapping != nil {
		return c.look(h, 0, min(h.size, len(h.mapping)), "a mapping held")
	}
	return c.fill(h, 0, h.size, "a file held", h.pread)
}

// hold keeps a batch for later and drops the oldest if there are too many.
func (c *client) hold(h *holding) {
	most := 3
	if c.Settings.tight() {
		most = 1
	}
	for len(c.held) >= most {
		c.letGo(0)
	}
	c.held = append(c.held, h)
}

func (c *client) letGo(i int) {
	c.held[i].release()
	c.held = slices.Delete(c.held, i, i+1)
}

func (h *holding) close() {
	if h.fd >= 0 {
		_ = unix.Close(h.fd)
		h.fd = -1
	}
}

func (h *holding) release() {
	h.close()
	if h.mapping != nil {
		_ = unix.Munmap(h.mapping)
		h.mapping = nil
	}
}
