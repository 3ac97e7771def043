package integration

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// Tiles are images of one color pattern each, which identifies the image. Any program can
// tell what a batch of them must contain, and notices a byte of another batch anywhere
// without decoding.

// tileBatch is the number of tiles per batch in all tests.
const tileBatch = 4

// tiles makes a flat dataset of n tiles, side*side pixels each; side is even.
func tiles(t testing.TB, n, side int) string {
	t.Helper()
	dir := filepath.Join(scratch(t), "tiles")
	for id := range n {
		writeFile(t, filepath.Join(dir, tileName(id)), tileFile(id, side))
	}
	return dir
}

func tileName(id int) string { return fmt.Sprintf("%05d.ppm", id) }

// tileFile is a tile's file.
func tileFile(id, side int) []byte {
	return append(fmt.Appendf(nil, "P6 %d %d 255\n", side, side), tile(id, side)...)
}

// tile returns the pixels of a tile: 4 bytes, repeated. tilesInPython implements the same
// rule.
func tile(id, side int) []byte {
	var pattern [4]byte
	binary.BigEndian.PutUint32(pattern[:], uint32(id)*2654435761)
	return bytes.Repeat(pattern[:], side*side*3/4)
}

const tilesInPython = `
import struct
def tiles(first, count, side):
    return b"".join(struct.pack(">I", i * 2654435761 & 0xffffffff) * (side * side * 3 // 4) for i in range(first, first + count))
`

// tilesOf returns the pixels of a batch of tiles, without shuffling or padding.
func tilesOf(batch, side int) []byte {
	var all []byte
	for i := range tileBatch {
		all = append(all, tile(batch*tileBatch+i, side)...)
	}
	return all
}

// tileMount mounts tiles.
func tileMount(t testing.TB, dataset string, flags ...string) *mounted {
	t.Helper()
	return mountBatchfs(t, dataset, append([]string{"--batch-size", strconv.Itoa(tileBatch)}, flags...)...)
}

// readTiles reads a batch of tiles in this process and checks it.
func readTiles(m *mounted, epoch, batch, side int, form layout.Form) error {
	path := m.path(0, epoch, batch, form)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	start := layout.DataOffset(form, layout.Spec{N: tileBatch, H: side, W: side, C: 3})
	if !bytes.Equal(data[start:], tilesOf(batch, side)) {
		return fmt.Errorf("%s holds something else", path)
	}
	return nil
}

// expectTiles does that for a test.
func (m *mounted) expectTiles(t testing.TB, epoch, batch, side int, form layout.Form) {
	t.Helper()
	if err := readTiles(m, epoch, batch, side, form); err != nil {
		t.Error(err)
	}
}

// openErrno opens a file and returns its errno; 0: success.
func openErrno(path string, flags int) (unix.Errno, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		switch errno, ok := err.(unix.Errno); {
		case err == nil:
			return 0, unix.Close(fd)
		case err == unix.EINTR: // this program's own signals
		case ok:
			return errno, nil
		default:
			return 0, err
		}
	}
}

// expectOpen opens a file and checks the errno; 0: none.
func expectOpen(t testing.TB, path string, want unix.Errno) {
	t.Helper()
	got, err := openErrno(path, unix.O_RDONLY)
	if err != nil || got != want {
		t.Errorf("open %s: %v %v, want %v", path, got, err, want)
	}
}

// eachReadPath runs a test with passthrough, if available, and with direct.
func eachReadPath(t *testing.T, test func(t *testing.T, path string)) {
	skipWithoutFUSE(t)
	for _, path := range []string{"passthrough", "direct"} {
		t.Run(path, func(t *testing.T) {
			if path == "passthrough" {
				skipWithoutPassthrough(t)
			}
			test(t, path)
		})
	}
}
