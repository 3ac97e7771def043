package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// A storage is a dataset of tiles on a file system served by another process, which the test
// controls: see hangfs.Serve.
type storage struct {
	*partner
	dir string
}

const (
	storageSide  = 64 // a file is a little more than three pages
	storageTiles = 16
)

func newStorage(t testing.TB) storage {
	t.Helper()
	skipWithoutFUSE(t)
	root(t) // the part mounts without help
	s := storage{dir: filepath.Join(scratch(t), "faulty")}
	check(t, os.Mkdir(s.dir, 0o755))
	t.Cleanup(func() {
		if left, err := testkit.MountsBelow(s.dir); err != nil || len(left) > 0 {
			t.Errorf("the dataset is still in use: %v %v", left, err)
			_ = unix.Unmount(s.dir, unix.MNT_DETACH)
		}
	})
	s.partner = startPartner(t, thisUser().daemon([]string{suite.self, "part-faulty", tiles(t, storageTiles, storageSide), s.dir}))
	s.expect(t, "ready")
	return s
}

// order sends the storage a command.
func (s storage) order(t testing.TB, line string) {
	t.Helper()
	check(t, s.Order(line))
}

// fail makes all reads of a tile fail.
func (s storage) fail(t testing.TB, id int) {
	t.Helper()
	s.order(t, fmt.Sprintf("fail %s %d 100", tileName(id), unix.EIO))
}

// stall makes reads of tiles wait until the storage is healed, which a test must defer.
func (s storage) stall(t testing.TB, ids ...int) {
	t.Helper()
	for _, id := range ids {
		s.order(t, "stall "+tileName(id))
	}
}

// awaitStalled waits until n reads wait for the storage.
func (s storage) awaitStalled(t testing.TB, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d reads stall", n), func() bool {
		s.tell(t, "waiting")
		return s.line(t) == strconv.Itoa(n)
	})
}
