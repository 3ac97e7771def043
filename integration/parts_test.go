package integration

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// listDirectory lists a directory with small and large buffers, then continues from every position
// at which a listing can stop, and compares the results. It returns the number of entries.
func listDirectory(path string) (n int, err error) {
	dir, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	all, err := entriesFrom(dir, 0, 1<<20, -1)
	if err != nil {
		return 0, err
	}
	few, err := entriesFrom(dir, 0, 512, -1)
	if err != nil {
		return 0, err
	}
	if err := sameEntries(all, few, "with a small buffer"); err != nil {
		return 0, err
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		i := random.IntN(len(all))
		rest, err := entriesFrom(dir, all[i].next, 4096, 50)
		if err != nil {
			return 0, err
		}
		if err := sameEntries(all[i+1:min(i+1+len(rest), len(all))], rest, fmt.Sprintf("behind entry %d", i)); err != nil {
			return 0, err
		}
		if len(rest) == 0 && i != len(all)-1 {
			return 0, fmt.Errorf("nothing is listed behind entry %d of %d", i, len(all))
		}
	}
	seen := map[string]bool{}
	for _, e := range all {
		if seen[e.name] {
			return 0, fmt.Errorf("%s is listed twice", e.name)
		}
		seen[e.name] = true
	}
	return len(all), nil
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
