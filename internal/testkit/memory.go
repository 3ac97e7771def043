package testkit

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Fenced returns memory of n bytes or a few more, between inaccessible pages: a program that
// reads or writes beyond its ends crashes.
func Fenced(t testing.TB, n int) []byte {
	t.Helper()
	page := unix.Getpagesize()
	end := page + (n+page-1)/page*page
	all, err := unix.Mmap(-1, 0, end+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(all) })
	for _, fence := range [][]byte{all[:page], all[end:]} {
		if err := unix.Mprotect(fence, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return all[page:end]
}
