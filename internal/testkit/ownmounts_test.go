package testkit

import (
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// TestCopies: everything mounted on a batchfs mount is unmounted before it, and nothing else is.
func TestCopies(t *testing.T) {
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(strings.Join([]string{
		`22 1 8:1 / / rw - ext4 /dev/vda rw`,
		`60 22 0:40 / /mnt/a rw - fuse.batchfs data rw`,
		`61 60 0:41 / /mnt/a rw - tmpfs over rw`,
		`62 61 0:42 / /mnt/a/below rw - tmpfs below rw`,
		`63 22 0:43 / /mnt/ab rw - fuse.sshfs other rw`,
		`64 22 0:44 / /mnt/with\040space rw - fuse.batchfs data rw`,
	}, "\n")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := copies(mounts), []string{"/mnt/with space", "/mnt/a/below", "/mnt/a", "/mnt/a"}; !slices.Equal(got, want) {
		t.Errorf("unmounts %q instead of %q", got, want)
	}
}
