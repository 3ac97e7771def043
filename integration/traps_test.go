package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// classFolders makes a directory of folders with photos in each. A name that ends in a slash is an
// empty folder.
func classFolders(t testing.TB, dir string, folders ...string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(photos(t), "*", "*"))
	check(t, err)
	for i, folder := range folders {
		check(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
		for k := 0; k < 2 && !strings.HasSuffix(folder, "/"); k++ {
			from := files[(2*i+k)%len(files)]
			check(t, os.Link(from, filepath.Join(dir, folder, fmt.Sprintf("%d.jpg", k))))
		}
	}
	return dir
}

// labelsOf are the labels of a mount's first batch.
func (m *mounted) labelsOf(t testing.TB) (all []int) {
	t.Helper()
	for _, s := range m.batchDoc(t, 0, 0, 0).Samples {
		all = append(all, s.Label)
	}
	return all
}

// TestFoldersThatAreNotClasses: a dataset one directory too high is refused, with the command that
// is meant, by a daemon too.
func TestFoldersThatAreNotClasses(t *testing.T) {
	for _, test := range []struct {
		folders []string
		meant   string
	}{
		{[]string{"train/cat", "train/dog", "val/cat", "val/dog"}, "train"},
		{[]string{"images", "masks"}, "images"},
	} {
		root := classFolders(t, filepath.Join(scratch(t), "data"), test.folders...)
		dir := mountpoint(t)
		for _, flags := range [][]string{nil, {"--daemon"}} {
			args := slices.Concat([]string{"mount"}, flags, []string{root, dir})
			execute(t, args...).failed(t, "not like classes", "hint: batchfs mount "+root+"/"+test.meant+" ...", "--as-classes")
		}
		unmounted(t, dir)
		m := mountBatchfs(t, root, "--as-classes", "--batch-size", "1")
		m.awaitLog(t, " images in ")
		mountBatchfs(t, filepath.Join(root, test.meant), "--batch-size", "1")
	}
}

// TestClassesOfAnotherMount: a validation set that lacks a class has the labels of the training
// set with its classes.txt, and shifted ones without.
func TestClassesOfAnotherMount(t *testing.T) {
	train := classFolders(t, filepath.Join(scratch(t), "train"), "ant", "bee", "cat", "dog")
	val := classFolders(t, filepath.Join(scratch(t), "val"), "ant", "cat", "dog")
	flags := []string{"--last-batch", "partial"}
	m := mountBatchfs(t, train, flags...)
	classes := filepath.Join(m.dir, "classes.txt")
	for _, test := range []struct {
		flags  []string
		labels []int
	}{
		{nil, []int{0, 0, 1, 1, 2, 2}},
		{[]string{"--classes", classes}, []int{0, 0, 2, 2, 3, 3}},
	} {
		v := mountBatchfs(t, val, append(test.flags, flags...)...)
		if got := v.labelsOf(t); !slices.Equal(got, test.labels) {
			t.Errorf("%v: labels %v, want %v", test.flags, got, test.labels)
		}
		want := layout.AppendNPY(nil, layout.Labels, layout.Spec{N: len(test.labels)}, layout.Meta{Labels: int64s(test.labels)})
		if got := v.form(t, 0, 0, 0, layout.Labels); string(got) != string(want) {
			t.Errorf("%v: labels.npy is %q", test.flags, got)
		}
		same := v.run(t, "cat", filepath.Join(v.dir, "classes.txt")) == m.run(t, "cat", classes)
		if same != (test.flags != nil) {
			t.Errorf("%v: the same classes.txt: %v", test.flags, same)
		}
	}
	few := filepath.Join(scratch(t), "few.txt")
	writeFile(t, few, []byte("ant\ncat\n"))
	execute(t, "mount", "--classes", few, val, mountpoint(t)).failed(t, `it lacks class "dog"`)
	execute(t, "mount", "--classes", few+"-not", val, mountpoint(t)).wrong(t, "--classes must be a file of class names", "no such file")
}

func int64s(list []int) (all []int64) {
	for _, n := range list {
		all = append(all, int64(n))
	}
	return all
}
