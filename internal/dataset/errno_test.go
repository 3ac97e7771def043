package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/testkit"
)

// errnos are the errors of the kernel and its file systems, and whether the file is at fault.
var errnos = map[unix.Errno]bool{
	unix.ENOENT: true, unix.ENOTDIR: true, unix.ELOOP: true, unix.EACCES: true, unix.ENAMETOOLONG: true,
	unix.EMFILE: false, unix.ENFILE: false, unix.ENOMEM: false, unix.ENOBUFS: false, unix.EINTR: false, unix.EAGAIN: false,
	unix.EIO: false, unix.ESTALE: false, unix.ENOTCONN: false, unix.ETIMEDOUT: false, unix.ENODEV: false, unix.ENXIO: false,
	unix.EHOSTDOWN: false, unix.EHOSTUNREACH: false, unix.ECONNRESET: false, unix.ECONNABORTED: false, unix.EREMOTEIO: false,
	unix.EINVAL: false, unix.EOPNOTSUPP: false, unix.EPERM: false, unix.EBADF: false, unix.EFAULT: false, unix.EUCLEAN: false,
	unix.EBADMSG: false, unix.EOVERFLOW: false, unix.EDQUOT: false, unix.EPROTO: false, unix.ENOKEY: false, unix.EKEYEXPIRED: false,
}

// TestEveryErrnoAtEveryCall checks Load and Check: the result is either the file's bytes, or an
// error that preserves the errno, has the right cause, and comes with the file's identity if the
// file was opened. A call that a signal interrupts does not fail.
func TestEveryErrnoAtEveryCall(t *testing.T) {
	for _, direct := range []bool{false, true} {
		p := newPlace(t)
		content := pattern(100_000)
		p.write("a.jpg", content)
		p.settle()
		d := p.open("")
		want := d.Stat(0)
		load := func() (Identity, error) {
			got, id, err := d.Load(context.Background(), 0, nil, wholePages)
			if err == nil && string(got) != content {
				t.Errorf("%d other bytes", len(got))
			}
			return id, err
		}
		check := func() (Identity, error) { return d.Check(0) }
		for name, call := range map[string]func() (Identity, error){"Load": load, "Check": check} {
			for errno, ofFile := range errnos {
				for k := int64(1); ; k++ {
					f, calls := failingAt(k, errno)
					d.storages[0] = newStorage(Storage{Direct: direct, system: f}, d.source, nil, p.options().Logger)
					id, err := call()
					if calls.Load() < k {
						break // it succeeded with fewer calls
					}
					what := fmt.Sprintf("%s, direct %t: call %d ends with %v: %+v, %v", name, direct, k, errno, id, err)
					switch {
					case err == nil && id != want:
						t.Error(what)
					case err == nil: // it was read another way
					case errno == unix.EINTR:
						t.Error(what)
					case (fault.Of(err) == fault.File) != ofFile:
						t.Errorf("%s: the file's: %t", what, fault.Of(err) == fault.File)
					case !errors.Is(err, errno) && !(errors.Is(err, ErrMissing) && (errno == unix.ENOENT || errno == unix.ENOTDIR)):
						t.Error(what)
					case name == "Load" && k > 2 && id != want || id.Known() && id != want:
						t.Errorf("%s: not the identity of what was opened, %+v", what, want)
					}
				}
			}
		}
	}
}

// swap replaces the dataset's directory with a copy that change has modified. The old directory
// is removed, so a process that has it open sees it empty.
func (p *place) swap(change func(root string)) {
	p.t.Helper()
	old := p.root + ".old"
	testkit.Must(p.t, os.Rename(p.root, old))
	defer os.RemoveAll(old)
	p.mkdir("")
	err := filepath.WalkDir(old, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(old, path)
		if err != nil || name == "." {
			return err
		}
		if e.IsDir() {
			p.mkdir(name)
			return nil
		}
		content, err := os.ReadFile(path)
		p.write(name, string(content))
		return err
	})
	testkit.Must(p.t, err)
	p.settle()
	if change != nil {
		change(p.root)
	}
}

// TestStorageThatIsAway: storage that is away is the machine's fault. It makes no file missing,
// and everything works again when the storage is back, at the same path but as a different
// directory.
func TestStorageThatIsAway(t *testing.T) {
	for name, gone := range map[string]func(root string){
		"gone":               func(root string) { os.RemoveAll(root) },
		"parent gone":        func(root string) { os.RemoveAll(filepath.Dir(root)) },
		"an empty directory": func(root string) { os.RemoveAll(root); os.Mkdir(root, 0o755) },
		"other files": func(root string) {
			os.RemoveAll(root)
			os.Mkdir(root, 0o755)
			os.WriteFile(filepath.Join(root, "README"), nil, 0o644)
		},
		"a file":    func(root string) { os.RemoveAll(root); os.WriteFile(root, nil, 0o644) },
		"a circle":  func(root string) { os.RemoveAll(root); os.Symlink(root, root) },
		"a nowhere": func(root string) { os.RemoveAll(root); os.Symlink("nowhere", root) },
	} {
		p := newPlace(t)
		p.images("a/1.jpg", "a/2.jpg", "b/3.jpg")
		p.settle()
		d := p.open("")
		var contents []string
		for i := range d.Len() {
			content, _ := d.Read(i, nil, grow)
			contents = append(contents, string(content))
		}
		p.swap(gone)
		for i := range d.Len() {
			for call, err := range map[string]error{"Load": loadError(d, i), "Check": checkError(d, i)} {
				var file *FileError
				if !errors.Is(err, ErrAway) || fault.Of(err) == fault.File || errors.Is(err, ErrMissing) || !errors.As(err, &file) || !strings.Contains(err.Error(), p.root) {
					t.Errorf("%s: %s of sample %d: %v", name, call, i, err)
				}
			}
		}
		os.RemoveAll(p.root)
		for i, content := range contents {
			p.write(d.Path(i), content)
		}
		p.settle()
		for i, content := range contents {
			if got, err := d.Read(i, nil, grow); err != nil || string(got) != content {
				t.Errorf("%s, and back: sample %d: %q, %v", name, i, got, err)
			}
		}
	}
}

func loadError(d *Dataset, i int) error {
	_, _, err := d.Load(context.Background(), i, nil, grow)
	return err
}
func checkError(d *Dataset, i int) error { _, err := d.Check(i); return err }

// TestStorageMountedAnew: remounted storage is used from the first read that needs it, by all
// readers at once. Its files are judged as usual: absent ones are missing, others may have changed.
func TestStorageMountedAnew(t *testing.T) {
	p := newPlace(t)
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("%02d.jpg", i))
	}
	p.images(names...)
	p.settle()
	d := p.open("")
	want, _ := d.Read(0, nil, grow)
	before := descriptors(t)
	for range 5 {
		p.swap(func(root string) {
			os.Remove(filepath.Join(root, "07.jpg"))
			p.append("08.jpg", "changed")
		})
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				for i := range d.Len() {
					got, err := d.Read(i, nil, grow)
					_, checked := d.Check(i)
					switch {
					case i == 7 && errors.Is(err, ErrMissing) && errors.Is(checked, ErrMissing):
					case i == 8 && errors.Is(err, ErrChanged) && errors.Is(checked, ErrChanged):
					case err != nil || checked != nil || string(got) != string(want):
						t.Errorf("sample %d: %q, %v, %v", i, got, err, checked)
					}
				}
			})
		}
		wait.Wait()
		p.images("07.jpg", "08.jpg")
		p.settle()
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
}

// TestStorageAwayForAMoment: no file is missing because its storage was away during the lookup,
// even if the same directory is back when it is examined.
func TestStorageAwayForAMoment(t *testing.T) {
	p := newPlace(t)
	p.images("a.jpg")
	d := p.open("")
	for name, call := range map[string]func(*Dataset, int) error{"Load": loadError, "Check": checkError} {
		f, _ := failingAt(1, unix.ENOENT)
		d.storages[0] = newStorage(Storage{system: f}, d.source, nil, p.options().Logger)
		if err := call(d, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	testkit.Must(t, os.Remove(p.path("a.jpg")))
	if err := loadError(d, 0); !errors.Is(err, ErrMissing) {
		t.Errorf("missing: %v", err)
	}
}

// descriptors counts this process's open directories.
func descriptors(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	testkit.Must(t, err)
	for _, e := range entries {
		if info, err := os.Stat("/proc/self/fd/" + e.Name()); err == nil && info.IsDir() {
			n++
		}
	}
	return n
}

// TestDirectoryThatMayNotBeSearched: a directory without search permission hides its files, but
// they are not at fault.
func TestDirectoryThatMayNotBeSearched(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may search every directory")
	}
	p := newPlace(t)
	p.images("a.jpg")
	d := p.open("")
	os.Chmod(p.root, 0)
	defer os.Chmod(p.root, 0o755)
	if err := loadError(d, 0); !errors.Is(err, ErrAway) || fault.Of(err) == fault.File {
		t.Errorf("error %v", err)
	}
}

// TestCloseBesideARead: a read in progress continues, and later ones fail as the machine's fault.
func TestCloseBesideARead(t *testing.T) {
	p := newPlace(t)
	p.images("a.jpg")
	d := p.open("")
	held := func(n int) []byte { d.Close(); return grow(n) }
	if got, err := d.Read(0, nil, held); err != nil || string(got) != image("jpeg", 10, 20, 1) {
		t.Errorf("%q, %v", got, err)
	}
	for range 2 {
		if err := loadError(d, 0); !errors.Is(err, unix.EBADF) || fault.Of(err) == fault.File {
			t.Errorf("after Close: %v", err)
		}
	}
}

// TestScanWithoutDescriptors: a scan without descriptors or memory fails instead of calling
// good files bad. It immediately retries a single failure of the storage.
func TestScanWithoutDescriptors(t *testing.T) {
	for k := int64(1); k <= 6; k++ {
		p := newPlace(t)
		p.images("a.jpg", "b.jpg")
		p.settle()
		for _, errno := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
			p.how.system, _ = failingAt(k, errno)
			p.refused(errno, "", "")
		}
		p.how.system, _ = failingAt(k, unix.ESTALE)
		if d := p.open(""); d.Report.Unreadable > 0 || d.Unread(0) != "" || d.Unread(1) != "" {
			t.Errorf("call %d: %+v", k, d.Report)
		}
	}
}

// TestScanOfStorageThatGoesAway: a scan fails when its storage goes away.
func TestScanOfStorageThatGoesAway(t *testing.T) {
	p := newPlace(t)
	for i := range 100 {
		p.images(fmt.Sprintf("%02d.jpg", i))
	}
	gone := sync.OnceFunc(func() { os.RemoveAll(p.root) })
	_, err := p.tryOpen("", func(o *Options) {
		o.Prober = func(head, tail []byte, size int64) (Header, error) { gone(); return p.c.probe(head, tail, size) }
		o.Workers = 1
	})
	if !errors.Is(err, ErrAway) {
		t.Errorf("error %v", err)
	}
}

// TestPathsThatAreTooLong: paths are looked up from the root of the file system, so a deep dataset
// can have files whose path is too long. The files are at fault, not the machine.
func TestPathsThatAreTooLong(t *testing.T) {
	p := newPlace(t)
	var parts []string
	for range 8 {
		p.root = filepath.Join(p.root, strings.Repeat("r", 240))
		parts = append(parts, strings.Repeat("d", 240))
	}
	far := strings.Join(parts, "/")
	p.images("near.jpg")
	p.mkdir(far)
	dir, err := os.OpenRoot(p.path(far))
	testkit.Must(t, err)
	defer dir.Close()
	name := strings.Repeat("x", 250) + ".jpg"
	testkit.Must(t, dir.WriteFile(name, []byte(image("jpeg", 10, 20, 1)), 0o644))
	p.write("m.csv", "path\nnear.jpg\n"+far+"/"+name+"\n")
	for _, dataset := range []string{"", "m.csv"} {
		d := p.open(dataset)
		for i := range d.Len() {
			if len(d.Path(i)) < 100 {
				continue
			}
			if err := loadError(d, i); d.Problem(i) != "file name too long" || d.Unread(i) != "" || fault.Of(err) != fault.File {
				t.Errorf("%q: problem %q, unread %q, error %v", dataset, d.Problem(i), d.Unread(i), err)
			}
		}
	}
}
