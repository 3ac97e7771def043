package integration

import (
	"encoding/json"
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
	if err != nil {
		t.Fatal(err)
	}
	for i, folder := range folders {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		for k := 0; k < 2 && !strings.HasSuffix(folder, "/"); k++ {
			from := files[(2*i+k)%len(files)]
			if err := os.Link(from, filepath.Join(dir, folder, fmt.Sprintf("%d.jpg", k))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// labelsOf are the labels of a mount's first batch.
func (m *mounted) labelsOf(t testing.TB) []int {
	t.Helper()
	var doc struct {
		Samples []struct{ Label int }
	}
	m.document(t, "shard-0/epoch-0/batch-00000.json", &doc)
	var all []int
	for _, s := range doc.Samples {
		all = append(all, s.Label)
	}
	return all
}

// TestFoldersThatAreNotClasses: a dataset one directory too high is refused, with the command that
// is meant, by a daemon too.
func TestFoldersThatAreNotClasses(t *testing.T) {
	skipWithoutFUSE(t)
	for _, test := range []struct {
		folders []string
		meant   string
	}{
		{[]string{"train/cat", "train/dog", "val/cat", "val/dog"}, "train"},
		{[]string{"annotations/", "train2017", "val2017"}, "train2017"},
		{[]string{"images", "masks"}, "images"},
	} {
		root := classFolders(t, filepath.Join(scratch(t), "data"), test.folders...)
		dir := mountpoint(t)
		for _, flags := range [][]string{nil, {"--daemon"}} {
			args := slices.Concat([]string{"mount"}, flags, []string{root, dir})
			execute(t, args...).failed(t, "not like classes", "hint: batchfs mount "+root+"/"+test.meant+" ...", "--as-classes")
		}
		unmounted(t, dir)
		m := mountBatchfs(t, root, "--as-classes")
		m.awaitLog(t, " images in ")
		mountBatchfs(t, filepath.Join(root, test.meant))
	}
}

// TestDaemonSaysWhatItMounts, in one line that names the classes, the formats and what it ignores.
func TestDaemonSaysWhatItMounts(t *testing.T) {
	skipWithoutFUSE(t)
	data := classFolders(t, filepath.Join(scratch(t), "data"), "cat", "dog", "emu", "fox")
	writeFile(t, filepath.Join(data, "cat", "notes.txt"), nil)
	found := data + ": 8 images in 4 classes (cat, dog, emu, ...); jpeg 8; 1 ignored file (1 .txt)"
	for _, flags := range [][]string{nil, {"--log-file", filepath.Join(scratch(t), "log")}, {"--last-batch", "partial"}} {
		want := found + "; 1 batch, 24 of 32 slots are padding\n"
		if slices.Contains(flags, "partial") {
			want = found + "\n"
		}
		dir := mountpoint(t)
		o := execute(t, slices.Concat([]string{"mount", "--daemon"}, flags, []string{data, dir})...).done(t)
		d := findDaemon(t, dir)
		if strings.Count(o.stderr, "batchfs: "+want) != 1 {
			t.Errorf("%s: says %q", o.words, o.stderr)
		}
		execute(t, "umount", dir).done(t)
		d.gone(t)
	}
	if o := execute(t, "index", data).done(t); !strings.HasPrefix(o.out, found+"\n") {
		t.Errorf("index says %q", o.out)
	}
	var report struct{ Summary string }
	o := execute(t, "index", "--json", data).done(t)
	if err := json.Unmarshal([]byte(o.out), &report); err != nil || report.Summary != found {
		t.Errorf("%v: %s", err, o.out)
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

// TestImageFolderWithMetadata mounts an image folder as Hugging Face's datasets have them.
func TestImageFolderWithMetadata(t *testing.T) {
	data := classFolders(t, filepath.Join(scratch(t), "data"), "a", "b")
	writeFile(t, filepath.Join(data, "metadata.jsonl"), []byte(`{"file_name": "b/1.jpg", "text": "a dog", "label": "dog", "grade": 4}
{"file_name": "a/0.jpg", "text": "a cat", "label": "cat", "grade": 2}
{"file_name": "a/1.jpg", "text": "what?"}
`))
	for _, test := range []struct {
		flags  []string
		labels []int
		says   string
	}{
		{nil, []int{1, 0, -1}, "3 images in 2 classes (cat, dog); jpeg 3; 1 without a label; listed in metadata.jsonl, which --metadata ignore ignores\n"},
		{[]string{"--label-column", "grade"}, []int{4, 2, -1}, "3 images with labels up to 4; jpeg 3; 1 without a label; listed in metadata.jsonl"},
		{[]string{"--metadata", "ignore"}, []int{0, 0, 1, 1}, "4 images in 2 classes (a, b); jpeg 4; 1 ignored file (1 .jsonl)\n"},
	} {
		m := mountBatchfs(t, data, append(test.flags, "--last-batch", "partial")...)
		if got := m.labelsOf(t); !slices.Equal(got, test.labels) {
			t.Errorf("%v: labels %v, want %v", test.flags, got, test.labels)
		}
		m.awaitLog(t, test.says)
	}
	writeFile(t, filepath.Join(data, "metadata.jsonl"), []byte(`{"file_name": "b/1.jpg", "label": 1}`+"\n"+`{"file_name": "a/0.jpg", "label": 0.5}`))
	execute(t, "mount", data, mountpoint(t)).failed(t, `line 2: label "0.5" is neither a whole number nor a class name`)
}
