package tier

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

func TestExamine(t *testing.T) {
	dir := t.TempDir()
	p, err := Examine(dir)
	if err != nil || p.FileSystem == "" || p.Free <= 0 || p.Used != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	o := newOrigin(5000)
	o.read(t, open(t, dir, Options{Limit: 1 << 30}), "", 0, 5000)
	if p, err := Examine(dir); err != nil || p.Used != fileBytes(5000) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Examine(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Examine(filepath.Join(dir, "used")); err == nil {
		t.Error("a file is good")
	}
	testkit.Must(t, os.Chmod(dir, 0o777))
	if _, err := Examine(dir); err == nil {
		t.Error("a directory that others may write to is good")
	}
}

func TestExamineMounted(t *testing.T) {
	dir := smallDisk(t)
	if p, err := Examine(dir); err != nil || p.FileSystem != "tmpfs" || p.Local || p.Free != 64<<10 {
		t.Errorf("%+v, %v", p, err)
	}
	testkit.Must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if _, err := Examine(dir); !errors.Is(err, unix.EROFS) {
		t.Errorf("read-only: %v", err)
	}
}
