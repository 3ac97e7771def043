package integration

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing/fstest"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Programs that read a mount in a separate process. Each gets its arguments from
// mounted.part.

// partTestFS runs the standard library's conformance test on a directory: DIR EXPECTED...
func partTestFS(args []string) error {
	return fstest.TestFS(os.DirFS(args[0]), args[1:]...)
}

// each repeats a part that takes n arguments until its arguments are used up.
func each(n int, part func(args []string) error) func(args []string) error {
	return func(args []string) error {
		for group := range slices.Chunk(args, n) {
			if err := part(group); err != nil {
				return fmt.Errorf("%s: %w", group[0], err)
			}
		}
		return nil
	}
}

// openTwo opens a file of the mount and reads the file with its expected contents.
func openTwo(args []string) (f *os.File, expected []byte, err error) {
	if f, err = os.Open(args[0]); err != nil {
		return nil, nil, err
	}
	expected, err = os.ReadFile(args[1])
	return f, expected, err
}

// partRead reads at random places: FILE EXPECTED SEED COUNT. Some reads begin or end past
// the end of the file.
func partRead(args []string) error {
	f, expected, err := openTwo(args)
	if err != nil {
		return err
	}
	defer f.Close()
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(seed, 1))
	buffer := make([]byte, len(expected)+4096)
	for range count {
		offset := random.IntN(len(expected) + 100)
		size := random.IntN(len(buffer))
		if random.IntN(2) == 0 {
			size = 1 + random.IntN(5000)
		}
		n, err := f.ReadAt(buffer[:size], int64(offset))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		from := min(offset, len(expected))
		if to := min(from+size, len(expected)); !bytes.Equal(buffer[:n], expected[from:to]) {
			return fmt.Errorf("%d bytes at %d are %d others", size, offset, n)
		}
	}
	return nil
}

// partMap maps a file in every way a reader may, and closes it before reading the mapping:
// FILE EXPECTED.
func partMap(args []string) error {
	f, expected, err := openTwo(args)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, way := range []struct {
		name         string
		access, flag int
	}{
		{"shared", unix.PROT_READ, unix.MAP_SHARED},
		{"private", unix.PROT_READ, unix.MAP_PRIVATE},
		{"private and writable", unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE},
		{"populated", unix.PROT_READ, unix.MAP_SHARED | unix.MAP_POPULATE},
	} {
		g, err := os.Open(args[0])
		if err != nil {
			return err
		}
		data, err := unix.Mmap(int(g.Fd()), 0, len(expected), way.access, way.flag)
		if err := errors.Join(err, g.Close()); err != nil {
			return fmt.Errorf("map %s: %w", way.name, err)
		}
		same := bytes.Equal(data, expected)
		if way.access&unix.PROT_WRITE != 0 { // writes stay private
			data[0]++
			data[len(data)-1]++
		}
		if err := unix.Munmap(data); err != nil {
			return err
		}
		if !same {
			return fmt.Errorf("mapped %s, the bytes are others", way.name)
		}
	}
	if data, err := unix.Mmap(int(f.Fd()), 0, len(expected), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		_ = unix.Munmap(data)
		return errors.New("a mapping that writes through was allowed")
	}
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, expected) {
		return errors.Join(errors.New("after the mappings, the bytes are others"), err)
	}
	return nil
}

// partSendfile sends a file to a pipe and to another file, in the kernel: FILE EXPECTED
// COPY.
func partSendfile(args []string) error {
	f, expected, err := openTwo(args)
	if err != nil {
		return err
	}
	defer f.Close()
	out, err := os.Create(args[2])
	if err != nil {
		return err
	}
	defer out.Close()
	if err := sendAll(int(out.Fd()), int(f.Fd()), len(expected)); err != nil {
		return fmt.Errorf("to a file: %w", err)
	}
	if got, err := os.ReadFile(args[2]); err != nil || !bytes.Equal(got, expected) {
		return errors.Join(errors.New("what sendfile wrote is other bytes"), err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	sent := make(chan error, 1)
	go func() {
		err := sendAll(int(w.Fd()), int(f.Fd()), len(expected))
		sent <- errors.Join(err, w.Close())
	}()
	got, err := io.ReadAll(r)
	if err := errors.Join(err, <-sent); err != nil {
		return fmt.Errorf("to a pipe: %w", err)
	}
	if !bytes.Equal(got, expected) {
		return errors.New("what sendfile piped is other bytes")
	}
	return nil
}

func sendAll(to, from, size int) error {
	for offset := int64(0); ; {
		n, err := unix.Sendfile(to, from, &offset, size+1)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil || n == 0 {
			if err == nil && offset != int64(size) {
				err = fmt.Errorf("sent %d bytes of %d", offset, size)
			}
			return err
		}
	}
}

// partXattrs prints the extended attributes of files, one "NAME=VALUE" per line, with a
// blank line after each file: FILE...
func partXattrs(args []string) error {
	for _, path := range args {
		names := make([]byte, 4096)
		n, err := unix.Listxattr(path, names)
		if err != nil {
			return fmt.Errorf("list %s: %w", path, err)
		}
		for name := range strings.FieldsFuncSeq(string(names[:n]), func(r rune) bool { return r == 0 }) {
			value := make([]byte, 4096)
			k, err := unix.Getxattr(path, name, value)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", name, path, err)
			}
			fmt.Printf("%s=%s\n", name, value[:k])
		}
		fmt.Println()
	}
	return nil
}

// partOpen tries to open names and prints for each "ok" or the errno: NAME...
func partOpen(args []string) error {
	for _, path := range args {
		f, err := os.Open(path)
		if err == nil {
			err = f.Close()
		}
		var errno unix.Errno
		switch {
		case err == nil:
			fmt.Println("ok")
		case errors.As(err, &errno):
			fmt.Println(unix.ErrnoName(errno))
		default:
			return err
		}
	}
	return nil
}

// partList lists a directory with small and large buffers, then continues from every
// position at which a listing can stop, and compares the results. It prints the number of
// entries: DIR.
func partList(args []string) error {
	dir, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer dir.Close()
	all, err := entriesFrom(dir, 0, 1<<20, -1)
	if err != nil {
		return err
	}
	few, err := entriesFrom(dir, 0, 512, -1)
	if err != nil {
		return err
	}
	if err := sameEntries(all, few, "with a small buffer"); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		i := random.IntN(len(all))
		rest, err := entriesFrom(dir, all[i].next, 4096, 50)
		if err != nil {
			return err
		}
		if err := sameEntries(all[i+1:min(i+1+len(rest), len(all))], rest, fmt.Sprintf("behind entry %d", i)); err != nil {
			return err
		}
		if len(rest) == 0 && i != len(all)-1 {
			return fmt.Errorf("nothing is listed behind entry %d of %d", i, len(all))
		}
	}
	seen := map[string]bool{}
	for _, e := range all {
		if seen[e.name] {
			return fmt.Errorf("%s is listed twice", e.name)
		}
		seen[e.name] = true
	}
	fmt.Println(len(all))
	return nil
}

// A listed entry, and the position after it.
type listed struct {
	name string
	ino  uint64
	kind fs.FileMode
	next int64
}

func sameEntries(a, b []listed, when string) error {
	if len(a) != len(b) {
		return fmt.Errorf("%s, %d entries are listed instead of %d", when, len(b), len(a))
	}
	for i := range a {
		if a[i] != b[i] {
			return fmt.Errorf("%s, entry %d is %v instead of %v", when, i, b[i], a[i])
		}
	}
	return nil
}

// entriesFrom lists a directory from a position: up to most entries, or all.
func entriesFrom(dir *os.File, from int64, buffer, most int) ([]listed, error) {
	if _, err := unix.Seek(int(dir.Fd()), from, io.SeekStart); err != nil {
		return nil, err
	}
	var all []listed
	for buf := make([]byte, buffer); most < 0 || len(all) < most; {
		n, err := unix.Getdents(int(dir.Fd()), buf)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		for b := buf[:n]; len(b) > 0; {
			// struct linux_dirent64: ino, off, length, type, name
			length := binary.NativeEndian.Uint16(b[16:])
			name, _, _ := bytes.Cut(b[unsafe.Offsetof(unix.Dirent{}.Name):length], []byte{0})
			e := listed{name: string(name), ino: binary.NativeEndian.Uint64(b), next: int64(binary.NativeEndian.Uint64(b[8:]))}
			if b[18] == unix.DT_DIR {
				e.kind = fs.ModeDir
			}
			all = append(all, e)
			b = b[length:]
		}
	}
	if most >= 0 {
		all = all[:min(most, len(all))]
	}
	return all, nil
}
