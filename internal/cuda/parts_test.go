//go:build cuda && linux && cgo && (amd64 || arm64)

package cuda

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// testPTX stands for a module, which testModule is in C: fill writes a byte to every byte of a
// block of memory.
const (
	testPTX    = ".version 6.0\n.target sm_70\n// fill\n"
	testModule = `
#include <stddef.h>
#include <string.h>
int ptx_fill(const unsigned *grid, const unsigned *block, size_t shared, const void *params, size_t size)
{
	struct { unsigned char *to; size_t bytes; unsigned char value; } *p = *(void **)params;
	memset(p->to, p->value, p->bytes);
	return size == 8 && grid[1] == 2 && block[0] == 32 && shared == 4096 ? 0 : 2;
}
`
)

const (
	slab = 2 * granularity
	page = 4096
)

// mapping is host memory that can be registered.
func mapping(bytes int) ([]byte, error) {
	return unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

func partDevices([]string) (any, error) {
	d, err := Open()
	if err != nil {
		return nil, err
	}
	devices, err := d.Devices()
	return devices, err
}

// onDevice runs f on a device. When f returns, everything that it passed to undo is undone.
func onDevice(ordinal int, f func(t *Thread, undo func(func() error)) error) error {
	d, err := Open()
	if err != nil {
		return err
	}
	devices, err := d.Devices()
	if err != nil {
		return err
	}
	return devices[ordinal].Thread(func(t *Thread) error {
		var undone []func() error
		err := f(t, func(u func() error) { undone = append(undone, u) })
		for i := len(undone) - 1; i >= 0; i-- {
			err = errors.Join(err, undone[i]())
		}
		return err
	})
}

// importer is the other process that exported starts.
var importer int

// partAll uses everything once, and checks the results, with another Thread of the last device in
// between. Its result is the process that opened its memory.
func partAll(arguments []string) (any, error) {
	other := len(arguments)
	err := onDevice(0, func(t *Thread, undo func(func() error)) error {
		p, page, err := work(t, undo)
		if err != nil {
			return err
		}
		err = onDevice(other, func(t *Thread, undo func(func() error)) error {
			_, _, err := work(t, undo)
			return err
		})
		if err != nil {
			return err
		}
		return exported(t, p, page)
	})
	return importer, err
}

// work uses everything except for handles. It returns memory on the device, and its first page.
func work(t *Thread, undo func(func() error)) (Pointer, []byte, error) {
	if free, total, err := t.MemoryInfo(); err != nil || free > total || free == 0 {
		return 0, nil, fmt.Errorf("%d of %d free: %w", free, total, err)
	}
	p, err := t.Alloc(slab)
	if err != nil {
		return 0, nil, err
	}
	undo(func() error { return t.Free(p) })
	staging, err := mapping(4 * page)
	if err != nil {
		return 0, nil, err
	}
	if err := t.Register(staging); err != nil {
		return 0, nil, err
	}
	undo(func() error { return t.Unregister(staging) })
	locked, err := t.AllocHost(page)
	if err != nil {
		return 0, nil, err
	}
	undo(func() error { return t.FreeHost(locked) })
	m, err := t.Load(testPTX)
	if err != nil {
		return 0, nil, err
	}
	undo(m.Close)
	return p, staging[3*page:], streams(t, undo, m, p, staging)
}

// streams sends bytes from the host, by one stream, to a kernel in another one, and back. The last
// page of staging then holds the bytes of the device's first.
func streams(t *Thread, undo func(func() error), m *Module, p Pointer, staging []byte) error {
	var s [2]*Stream
	var err error
	for i := range s {
		if s[i], err = t.NewStream(); err != nil {
			return err
		}
		undo(s[i].Close)
	}
	fill, err := m.Function("fill")
	if err != nil {
		return err
	}
	copy(staging, bytes.Repeat([]byte{'h'}, page))
	for i, v := range []uint64{uint64(p), page / 2, 'k'} {
		binary.NativeEndian.PutUint64(staging[page+8*i:], v)
	}
	for _, do := range []func() error{
		func() error { return s[0].ToDevice(p, staging[:2*page]) },
		func() error { return s[0].fill(p+2*page, 'f', page) },
		func() error { return s[0].Copy(p+3*page, p+2*page, page) },
		s[0].Synchronize,
		func() error { return fill.Launch([3]int{3, 2, 1}, [3]int{32, 1, 1}, 4096, s[1], p+page) },
		func() error { return s[1].ToHost(staging[3*page:], p) },
		func() error { return s[1].ToHost(staging[2*page:3*page], p+3*page) },
		s[1].Synchronize,
	} {
		if err := do(); err != nil {
			return err
		}
	}
	want := bytes.Repeat([]byte{'f'}, page) // by way of fill and Copy
	want = append(want, bytes.Repeat([]byte{'k'}, page/2)...)
	want = append(want, bytes.Repeat([]byte{'h'}, page/2)...)
	if got := staging[2*page:]; !bytes.Equal(got, want) {
		return fmt.Errorf("%q is not %q", got, want)
	}
	return nil
}

// exported hands p to another process, which must read want there.
func exported(t *Thread, p Pointer, want []byte) error {
	small, err := t.Alloc(512)
	if err != nil {
		return err
	}
	_, ofSmall := t.Export(small)
	if err := t.Free(small); err != nil {
		return err
	}
	_, ofPart := t.Export(p + 1)
	for _, err := range []error{ofSmall, ofPart} {
		if err == nil || errors.As(err, new(*Error)) {
			return fmt.Errorf("a part of a block of memory was exported: %w", err)
		}
	}
	h, err := t.Export(p)
	if err != nil {
		return err
	}
	var e *Error
	if _, err := t.OpenIPC(h); !errors.As(err, &e) || e.Code != 201 {
		return fmt.Errorf("a process opened its own memory: %w", err)
	}
	cmd := exec.Command("/proc/self/exe", "import", hex.EncodeToString(h[:]), hex.EncodeToString(want))
	settings, _, _ := strings.Cut(os.Getenv("FAKE_CUDA"), " fail=") // nothing fails there
	cmd.Env = append(os.Environ(), "FAKE_CUDA="+settings)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil || r.Error != "" {
		return errors.Join(fmt.Errorf("the other process: %s", out), err)
	}
	importer = r.PID
	return nil
}

func partImport(arguments []string) (any, error) {
	var h IPCHandle
	if _, err := hex.Decode(h[:], []byte(arguments[0])); err != nil {
		return nil, err
	}
	want, err := hex.DecodeString(arguments[1])
	if err != nil {
		return nil, err
	}
	return nil, onDevice(0, func(t *Thread, undo func(func() error)) error {
		i, err := t.OpenIPC(h)
		if err != nil {
			return err
		}
		undo(i.Close)
		s, err := t.NewStream()
		if err != nil {
			return err
		}
		undo(s.Close)
		got, err := mapping(len(want))
		if err != nil {
			return err
		}
		if err := s.ToHost(got, i.At); err != nil { // it is not registered, so this waits
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%q is not %q", got, want)
		}
		return nil
	})
}
