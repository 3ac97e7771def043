package fusefs

import (
	"os"
	"strings"
	"testing"
)

const someMounts = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
60 22 0:40 / /mnt/a\040b\134c\011d\012e\043f ro,nosuid,nodev,noexec - fuse.batchfs my\040data ro,user_id=0
61 22 0:41 / /mnt/stack rw shared:7 master:2 - tmpfs tmpfs rw
62 61 0:42 / /mnt/stack ro - fuse.batchfs x ro
63 62 0:43 / /mnt/stack ro - tmpfs x ro
64 22 0:44 / /mnt/other ro - fuse.sshfs x
garbage
65 22 0:45 / /mnt/short
x 22 0:46 / /mnt/bad ro - tmpfs x ro
66 x 0:46 / /mnt/bad ro - tmpfs x ro
67 22 0:47 / /mnt/last ro - fuse.batchfs x ro`

func TestParseMounts(t *testing.T) {
	entries, err := parseMounts(strings.NewReader(someMounts))
	if err != nil || len(entries) != 7 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for path, want := range map[string]mountEntry{
		"/":                   {22, 1, "8:1", "/", "ext4"},
		"/mnt/a b\\c\td\ne#f": {60, 22, "0:40", "/mnt/a b\\c\td\ne#f", "fuse.batchfs"},
		"/mnt/stack":          {63, 62, "0:43", "/mnt/stack", "tmpfs"},
		"/mnt/last":           {67, 22, "0:47", "/mnt/last", "fuse.batchfs"},
		"/mnt":                {},
		"/mnt/a\\040b\\134c":  {},
		"/mnt/bad":            {},
	} {
		if got, _ := topMount(entries, path); got != want {
			t.Errorf("%q: %+v, want %+v", path, got, want)
		}
	}
}

// TestTopMountAnyOrder: the order of the lines does not matter.
func TestTopMountAnyOrder(t *testing.T) {
	entries, _ := parseMounts(strings.NewReader(someMounts))
	for range entries {
		entries = append(entries[1:], entries[0])
		if got, _ := topMount(entries, "/mnt/stack"); got.id != 63 {
			t.Errorf("top is %d", got.id)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`a\040b`: "a b", `\\`: `\\`, `\0`: `\0`, `\04`: `\04`, `\049`: `\049`, `a\134`: `a\`, `\777`: `\777`, "": "", `\303\251`: "é",
	} {
		if got := unescape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestRealPath(t *testing.T) {
	dir, err := realPath(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(dir+"/real", 0o700))
	must(os.Mkdir(dir+"/real/mnt", 0o700))
	must(os.Symlink("real", dir+"/dirlink"))
	must(os.Symlink("dirlink/mnt", dir+"/relative"))
	must(os.Symlink(dir+"/relative", dir+"/absolute"))
	must(os.Symlink("loop", dir+"/loop"))
	for _, name := range []string{"real/mnt", "dirlink/mnt", "relative", "absolute", "real/../real/mnt/"} {
		if got, err := realPath(dir + "/" + name); got != dir+"/real/mnt" || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if got, err := realPath(dir + "/loop"); err == nil {
		t.Errorf("a loop leads to %s", got)
	}
	if got, err := realPath("/"); got != "/" || err != nil {
		t.Errorf("the root is %s, %v", got, err)
	}
	t.Chdir(dir)
	if got, err := realPath("real/mnt"); got != dir+"/real/mnt" || err != nil {
		t.Errorf("relative to the working directory: %s, %v", got, err)
	}
}

func TestHasLine(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "user_allow_other": true, "# c\n  user_allow_other  # yes\n": true,
		"#user_allow_other\n": false, "user_allow_others\n": false, "mount_max = 10\nuser_allow_other": true,
	} {
		if got := hasLine(text, "user_allow_other"); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
