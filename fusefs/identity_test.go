package fusefs

import (
	"os"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"

	"github.com/batchfs/batchfs/internal/testkit"
)

const someMounts = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
60 22 0:40 / /mnt/a\040b\134c\011d\012e\043f ro,nosuid,nodev,noexec - fuse.batchfs my\040data ro,user_id=0
61 22 0:41 / /mnt/stack rw shared:7 master:2 - tmpfs tmpfs rw
62 61 0:42 / /mnt/stack ro - fuse.batchfs x ro
63 62 0:43 / /mnt/stack ro - tmpfs x ro
64 22 0:44 / /mnt/other ro - fuse.sshfs x ro
67 22 0:47 / /mnt/last ro - fuse.batchfs x ro`

// TestTopMount: escaped paths are found, and so is the visible one of stacked mounts, whatever the
// order of the lines.
func TestTopMount(t *testing.T) {
	entries, err := mountinfo.GetMountsFromReader(strings.NewReader(someMounts), nil)
	testkit.Must(t, err)
	for range entries {
		entries = append(entries[1:], entries[0])
		for path, want := range map[string]identity{
			"/":                   {id: 22, device: "8:1"},
			"/mnt/a b\\c\td\ne#f": {id: 60, device: "0:40"},
			"/mnt/stack":          {id: 63, device: "0:43"},
			"/mnt/last":           {id: 67, device: "0:47"},
			"/mnt":                {},
			"/mnt/a\\040b\\134c":  {},
		} {
			if got := identityOf(topMount(entries, path)); got != want {
				t.Errorf("%q: %+v, want %+v", path, got, want)
			}
		}
	}
}

func TestRealPath(t *testing.T) {
	dir, err := realPath(t.TempDir())
	testkit.Must(t, err)
	testkit.Must(t, os.Mkdir(dir+"/real", 0o700))
	testkit.Must(t, os.Mkdir(dir+"/real/mnt", 0o700))
	testkit.Must(t, os.Symlink("real", dir+"/dirlink"))
	testkit.Must(t, os.Symlink("dirlink/mnt", dir+"/relative"))
	testkit.Must(t, os.Symlink(dir+"/relative", dir+"/absolute"))
	testkit.Must(t, os.Symlink("loop", dir+"/loop"))
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

func TestUserAllowOther(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "user_allow_other": true, "# c\n  user_allow_other  # yes\n": true,
		"#user_allow_other\n": false, "user_allow_others\n": false, "mount_max = 10\nuser_allow_other": true,
		"user_allow_other\r\nmount_max = 10\r\n": true, "user_allow_other\nmount_max = 10": true, "user_allow_other no": false,
	} {
		if got := allowsOther.MatchString(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
