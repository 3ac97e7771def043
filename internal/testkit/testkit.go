// Package testkit has what tests of several packages need: the end of a test at an error, build
// settings, lists of files and mounts, the page cache's view of a file, memory between fences, a
// Python with given modules, real object stores, pictures, JPEGs that no encoder makes, and mounts
// that no other test sees.
package testkit

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Must ends a test that cannot go on after an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Allocated returns how many bytes are allocated while f runs, by any goroutine.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// BuildSetting returns a setting that this test was built with, such as CGO_ENABLED.
func BuildSetting(key string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return ""
}

// MountsBelow lists the mountpoints at or below a directory, deepest first.
func MountsBelow(dir string) (found []string, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && (f[4] == dir || strings.HasPrefix(f[4], dir+"/")) {
			found = append(found, f[4])
		}
	}
	slices.Reverse(found)
	return found, err
}

// Files reads all files of a directory, by their names within it.
func Files(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		files[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Pictures reads files of decode's testdata, at least one for each pattern.
func Pictures(t testing.TB, patterns ...string) (all [][]byte) {
	t.Helper()
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(root(t), "decode/testdata", pattern))
		if err != nil || names == nil {
			t.Fatalf("%s: no files (%v)", pattern, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, data)
		}
	}
	return all
}

// OnDisk skips a test if the page cache cannot be distinguished from the storage of a directory.
func OnDisk(t testing.TB, dir string) {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	switch fs.Type {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.FUSE_SUPER_MAGIC: // FUSE may show the pages of files below
		t.Skipf("SKIPPED: THE PAGE CACHE CANNOT BE LOOKED AT HERE: %s is on no disk file system (type %#x)", dir, fs.Type)
	}
}

// PagesCached counts a file's pages in the page cache.
func PagesCached(t testing.TB, path string) (n int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() == 0 {
		return 0
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	there := make([]byte, (len(m)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&there[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range there {
		n += int(p & 1)
	}
	return n
}

// WebPSafe reports whether libwebp, whose version decode.Version says, survives when memory runs
// out. Before 1.4.0, and with the fix for CVE-2023-4863, it frees an uninitialized pointer when a
// small allocation of its lossless decoder fails.
func WebPSafe(decoders string) bool {
	var major, minor, patch int
	_, words, _ := strings.Cut(decoders, "libwebp ")
	_, err := fmt.Sscanf(words, "%d.%d.%d", &major, &minor, &patch)
	return err == nil && (major > 1 || major == 1 && minor >= 4)
}
