//go:build cuda && linux && cgo && (amd64 || arm64)

package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// partLater shows that copies of registered memory happen later: those that are wrong without
// waiting are wrong here. A kernel holds the stream until the end.
func partLater([]string) (any, error) {
	return nil, onDevice(0, func(t *Thread, undo func(func() error)) error {
		p, err := t.Alloc(slab)
		if err != nil {
			return err
		}
		undo(func() error { return t.Free(p) })
		staging, _, err := mapping(4 * page)
		if err != nil {
			return err
		}
		if err := t.Register(staging[:2*page]); err != nil {
			return err
		}
		undo(func() error { return t.Unregister(staging[:2*page]) })
		_, hold, err := testFunction(t, undo, "hold")
		if err != nil {
			return err
		}
		var held, other *Stream
		for _, s := range []**Stream{&held, &other} {
			if *s, err = t.NewStream(); err != nil {
				return err
			}
			undo((*s).Close)
		}
		return later(held, other, hold, p, staging)
	})
}

// testFunction is a kernel of testPTX, in its module.
func testFunction(t *Thread, undo func(func() error), name string) (m *Module, f Function, err error) {
	if m, err = t.Load(testPTX); err == nil {
		undo(m.Close)
		f, err = m.Function(name)
	}
	return m, f, err
}

// later has four pages of the host, of which two are registered, and of the device.
func later(held, other *Stream, hold Function, p Pointer, staging []byte) error {
	page := func(i int) []byte { return staging[i*page : (i+1)*page] }
	device := func(i int) Pointer { return p + Pointer(i*len(page(0))) }
	flag := device(8)
	defer other.Fill(flag, 1, 1) // whatever happens, the kernel ends
	copy(page(0), bytes.Repeat([]byte{'a'}, len(page(0))))
	copy(page(2), bytes.Repeat([]byte{'a'}, len(page(0))))
	if err := errors.Join(
		other.Fill(flag, 0, 1), other.Synchronize(),
		hold.Launch([3]int{1, 1, 1}, [3]int{32, 1, 1}, 0, held, flag),
		held.ToDevice(device(0), page(0)),
		held.ToDevice(device(1), page(2)), // not registered: copied at once
		held.ToHost(page(1), device(0)),
	); err != nil {
		return err
	}
	early := make([]byte, len(page(0)))
	if err := other.ToHost(early, device(0)); err != nil {
		return err
	}
	if want := bytes.Repeat([]byte{219}, len(early)); !bytes.Equal(early, want) || page(1)[0] != 0 {
		return fmt.Errorf("there already: %v %v", early[:8], page(1)[:8])
	}
	// Too early: the first copy has not happened.
	copy(page(0), bytes.Repeat([]byte{'b'}, len(early)))
	copy(page(2), bytes.Repeat([]byte{'b'}, len(early)))
	if err := errors.Join(other.Fill(flag, 1, 1), held.ToHost(page(3), device(1))); err != nil { // waits for all before it
		return err
	}
	if page(1)[0] != 'b' || page(3)[0] != 'a' {
		return fmt.Errorf("registered %c, not registered %c", page(1)[0], page(3)[0])
	}
	return nil
}

// partLimits gives the driver what it must refuse. After that everything still works.
func partLimits([]string) (any, error) {
	return nil, onDevice(0, func(t *Thread, undo func(func() error)) error {
		if _, err := t.Alloc(1 << 40); !errors.Is(err, ErrMemory) {
			return fmt.Errorf("too much memory: %w", err)
		}
		for _, bytes := range []int64{0, -1} {
			if _, err := t.Alloc(bytes); err == nil {
				return fmt.Errorf("%d bytes of memory", bytes)
			}
		}
		p, err := t.Alloc(slab)
		if err != nil {
			return err
		}
		undo(func() error { return t.Free(p) })
		small, err := t.Alloc(512)
		if err != nil {
			return err
		}
		undo(func() error { return t.Free(small) })
		s, err := t.NewStream()
		if err != nil {
			return err
		}
		undo(s.Close)
		m, fill, err := testFunction(t, undo, "fill")
		if err != nil {
			return err
		}
		_, readOnly, err := mapping(page)
		if err != nil {
			return err
		}
		_, notPTX := t.Load("PTX")
		_, noKernel := m.Function("nothing")
		_, tooSmall := t.Export(small)
		_, noBytes := t.AllocHost(0)
		for what, err := range map[string]error{
			"no host memory":         noBytes,
			"a read-only mapping":    t.Register(readOnly),
			"nothing to register":    t.Register(nil),
			"nothing to unregister":  t.Unregister(readOnly),
			"memory freed at a part": t.Free(p + 1),
			"beyond the end":         s.Fill(p+slab-1, 0, 2),
			"no device memory":       s.ToDevice(0, readOnly),
			"copy beyond the end":    s.Copy(p, p+1, slab),
			"too many rows":          fill.Launch([3]int{1, 65536, 1}, [3]int{32, 1, 1}, 0, s, p),
			"too many threads":       fill.Launch([3]int{1, 1, 1}, [3]int{32, 32, 2}, 0, s, p),
			"not PTX":                notPTX,
			"no such kernel":         noKernel,
			"a small block":          tooSmall,
		} {
			if err == nil || errors.Is(err, ErrLost) {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		return errors.Join(s.Fill(p, 0, slab), s.Synchronize())
	})
}

// partFault has a kernel write beyond its memory, which ends the device.
func partFault([]string) (any, error) {
	return nil, onDevice(0, func(t *Thread, undo func(func() error)) error {
		p, err := t.Alloc(slab)
		if err != nil {
			return err
		}
		undo(func() error { return t.Free(p) })
		s, err := t.NewStream()
		if err != nil {
			return err
		}
		undo(s.Close)
		_, fill, err := testFunction(t, undo, "fill")
		if err != nil {
			return err
		}
		var param [24]byte
		binary.NativeEndian.PutUint64(param[:], uint64(p)+slab-page)
		binary.NativeEndian.PutUint64(param[8:], page+1)
		return errors.Join(s.ToDevice(p, param[:]), fill.Launch([3]int{1, 2, 1}, [3]int{32, 1, 1}, 4096, s, p), s.Synchronize())
	})
}
