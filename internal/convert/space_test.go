package convert

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// tmpfs mounts a tmpfs with the given options.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("convert-test", dir, "tmpfs", 0, options); err != nil {
		t.Skip("mounting needs root: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// onDisk is what a directory takes on disk; hard links take nothing.
func onDisk(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if st.Nlink == 1 && st.Mode&unix.S_IFMT == unix.S_IFREG && e.Name() != markerName {
			bytes += st.Blocks * 512
		}
		return err
	})
	testkit.Must(t, err)
	return bytes
}

// TestSpaceIsKnown: the announced space is what the run takes: exact for BMP, an upper bound
// for PPM, nothing for links.
func TestSpaceIsKnown(t *testing.T) {
	path := mixed(t)
	for _, copies := range []bool{false, true} {
		for _, format := range []Format{BMP, PPM} {
			dir := t.TempDir()
			if copies {
				dir = otherFileSystem(t)
			}
			var plan Plan
			out := filepath.Join(dir, "out")
			r, err := Write(context.Background(), open(t, path), out, Options{Shares: Shares{Raw: 0.5}, Format: format, Announce: func(p Plan) {
				if _, err := os.Stat(filepath.Join(p.Staging, "class-000")); err == nil {
					t.Error("announced after it began")
				}
				plan = p
			}})
			testkit.Must(t, err)
			if plan.Linked != r.Linked || plan.Copied != r.Copied || plan.Cloned != r.Cloned || plan.Raw != r.Raw || (plan.Copied > 0) != copies {
				t.Errorf("announced %+v, done %+v", plan, r)
			}
			was, is := open(t, path), open(t, out)
			raw, kept := int64(0), int64(0)
			for i := range is.Len() {
				if is.Path(i) != was.Path(i) {
					raw += is.Stat(i).Size
				} else if copies {
					kept += is.Stat(i).Size
				}
			}
			if exact := format == BMP; plan.RawBytes < raw || exact && plan.RawBytes != raw || plan.CopyBytes != kept {
				t.Errorf("%v: announced %d and %d bytes, wrote %d and %d", format, plan.RawBytes, plan.CopyBytes, raw, kept)
			}
			// Directories and the marker account for a difference of a few blocks.
			if took := onDisk(t, out); took > plan.NeedBytes || format == BMP && took < plan.NeedBytes-10*4096 {
				t.Errorf("%v: %d bytes on disk, %d were announced", format, took, plan.NeedBytes)
			}
		}
	}
}

// TestSpaceOfLinks: a broken link does not decide how the other samples are kept.
func TestSpaceOfLinks(t *testing.T) {
	path := small(t)
	testkit.Must(t, os.Symlink("/nowhere", filepath.Join(path, "a/!.png")))
	var plan Plan
	if _, r := convert(t, path, Options{Announce: func(p Plan) { plan = p }}); plan.Linked != 11 || plan.Copied != 0 || r.Linked != 9 || r.Symlinked != 2 {
		t.Errorf("announced %+v, done %+v", plan, r)
	}
}

// TestDiskTooSmall: a run that cannot succeed does not start.
func TestDiskTooSmall(t *testing.T) {
	path := mixed(t)
	for _, options := range []string{"size=256k", "size=64m,nr_inodes=30"} {
		dir := tmpfs(t, options)
		said := false
		_, err := Write(context.Background(), open(t, path), filepath.Join(dir, "out"), Options{Shares: Shares{Raw: 0.5}, Announce: func(Plan) { said = true }})
		if !errors.Is(err, ErrSpace) || !said {
			t.Errorf("%s: %v; announced: %v", options, err, said)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", options, left, err)
		}
	}
}

// TestDiskFull: if the disk fills up during a run, nothing is lost, and the run continues once
// there is room again.
func TestDiskFull(t *testing.T) {
	path, dir := mixed(t), tmpfs(t, "size=24m")
	o := Options{Shares: Shares{Raw: 0.5}, Seed: 3}
	whole, _ := convert(t, path, o)
	want := contents(t, whole)
	out, ballast := filepath.Join(dir, "out"), filepath.Join(dir, "ballast")
	full := o
	full.Announce = func(p Plan) {
		if err := os.WriteFile(ballast, make([]byte, p.FreeBytes-p.NeedBytes/2), 0o600); err != nil {
			t.Error(err)
		}
	}
	r, err := Write(context.Background(), open(t, path), out, full)
	if !errors.Is(err, ErrSpace) || r.Converted == 0 {
		t.Fatalf("%v; %+v", err, r)
	}
	if left, err := os.ReadDir(filepath.Join(out+stagingSuffix, scratchName)); err != nil || len(left) > 0 {
		t.Errorf("half a file is left: %v, %v", left, err)
	}
	// The remaining work does not fit, which is now known in advance.
	if _, err := Write(context.Background(), open(t, path), out, o); !errors.Is(err, ErrSpace) {
		t.Errorf("with the disk still full: %v", err)
	}
	testkit.Must(t, os.Remove(ballast))
	again(t, path, out, o, want, "with room")
}

// TestMountpointRefused: a rename cannot replace a mountpoint.
func TestMountpointRefused(t *testing.T) {
	dir := tmpfs(t, "size=1m")
	ds := open(t, small(t))
	if _, err := Write(context.Background(), ds, dir, Options{Shares: Shares{Raw: 0.5}}); !errors.Is(err, ErrMountpoint) {
		t.Errorf("on another file system: %v", err)
	}
	bound := t.TempDir()
	testkit.Must(t, unix.Mount(t.TempDir(), bound, "", unix.MS_BIND, ""))
	defer unix.Unmount(bound, unix.MNT_DETACH)
	if _, err := Write(context.Background(), ds, bound, Options{Shares: Shares{Raw: 0.5}}); !errors.Is(err, ErrMountpoint) {
		t.Errorf("on the same one: %v", err)
	}
	if _, err := Write(context.Background(), ds, filepath.Join(bound, "out"), Options{Shares: Shares{Raw: 0.5}}); err != nil {
		t.Errorf("in it: %v", err)
	}
}
