package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batchfs/batchfs/dataset"
)

// write writes files, by their paths in a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		save(t, filepath.Join(dir, name), content)
	}
}

// save writes a file, and makes its directory.
func save[T string | []byte](t *testing.T, path string, content T) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err = errors.Join(err, os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestSummary: one line says what a dataset is.
func TestSummary(t *testing.T) {
	flat := t.TempDir()
	writeImage(t, filepath.Join(flat, "1.png"), 1, 1)
	many, listed := photos(t, 2), photos(t, 2)
	for _, class := range []string{"c", "d\x1b"} {
		if err := os.Mkdir(filepath.Join(many, class), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, many, map[string]string{
		"a/1.gif": "", "a/2.GIF": "", "b/.hidden": "", "b/README": "", "root.png": "", "x.txt": "", "x.c": "", "x.d": "", "x.e": "", "b/bad.jpg": "",
	})
	write(t, listed, map[string]string{
		"names.csv": "path,label\na/0.png,cat\nb/1.png,\n", "metadata.csv": "file_name,label,grade\na/0.png,-1,3\nb/1.png,7,\n", "none.csv": "path\na/0.png\n",
	})
	for _, test := range []struct {
		path  string
		flags dataset.Options
		want  string
	}{
		{flat, dataset.Options{}, ": 1 image without labels; png 1"},
		{many, dataset.Options{}, ": 5 images in 4 classes (a, b, c, ...), 2 of them without images (c, \"d\\x1b\"); png 4; 1 unreadable (batchfs verify " + many + "); 9 ignored files (2 .gif, 1 without extension, 1 hidden, 1 .c, 1 .d, 3 of 3 more kinds)"},
		{listed, dataset.Options{}, ": 2 images with labels up to 7; png 2; 1 without a label; listed in metadata.csv, which --metadata ignore ignores"},
		{listed, dataset.Options{IgnoreMetadata: true}, ": 4 images in 2 classes (a, b); png 4; 3 ignored files (3 .csv)"},
		{listed, dataset.Options{LabelColumn: "grade"}, ": 2 images with labels up to 3; png 2; 1 without a label; listed in metadata.csv, which --metadata ignore ignores"},
		{filepath.Join(listed, "names.csv"), dataset.Options{}, ": 2 images in 1 class (cat); png 2; 1 without a label"},
		{filepath.Join(listed, "none.csv"), dataset.Options{}, ": 1 image without labels; png 1"},
	} {
		test.flags.Logger = quiet
		ds, err := (&console{err: io.Discard}).openDataset(t.Context(), test.path, test.flags)
		if err != nil {
			t.Fatal(err)
		}
		if got := summary(test.path, ds); got != test.path+test.want {
			t.Errorf("says %q, want %q", got, test.path+test.want)
		}
		if err := ds.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNoClasses: every command that shows labels refuses folders that are no classes, and names
// the one that is meant.
func TestNoClasses(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"train", "val"} {
		if err := os.Rename(photos(t, 1), filepath.Join(root, dir)); err != nil {
			t.Fatal(err)
		}
	}
	mnt := t.TempDir()
	for command, args := range map[string][]string{"mount": {mnt}, "index": nil, "bench": nil, "profile": nil, "plan": nil, "convert": {mnt + "/x", "--raw-ratio", "1"}} {
		got := batchfs(t, append([]string{command, root}, args...)...)
		want := "not like classes: train, val\nbatchfs: hint: batchfs " + command + " " + root + "/train ...; if they are classes, add --as-classes\n"
		if got.status != statusFailed || got.out != "" || !strings.HasSuffix(got.err, want) {
			t.Errorf("%s: status %d, %s", command, got.status, got.err)
		}
	}
	if got := batchfs(t, "index", "--as-classes", root); got.status != statusDone || !strings.Contains(got.out, "4 images in 2 classes (train, val)") {
		t.Errorf("as classes: %+v", got)
	}
	if got := batchfs(t, "index", root+"/train"); got.status != statusDone || !strings.Contains(got.out, "2 images in 2 classes (a, b)") {
		t.Errorf("train: %+v", got)
	}
	if got := batchfs(t, "verify", root); got.out != "4 images, 0 bad\n" {
		t.Errorf("verify: %+v", got)
	}
}

// TestListsOfDatasets: what is wrong with one dataset of a list is said with its line, and the hint
// is about that dataset.
func TestListsOfDatasets(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"one", "two", "set/train", "set/val"} {
		path := filepath.Join(root, dir)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Rename(photos(t, 2), path)); err != nil {
			t.Fatal(err)
		}
	}
	list, inside := filepath.Join(root, "all.txt"), filepath.Join(root, "two", "mnt")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, root, map[string]string{"numbers.csv": "path,label\none/a/0.png,1\n", "names": "a\nb\nc\n"})
	for text, c := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"one\n# again\none\ntwo\n":     {[]string{"index", list}, statusDone, "all.txt: 12 images in 3 classes (a, b, mnt)"},
		"one\ntwo":                     {[]string{"mount", list, inside}, statusFailed, "lies inside the dataset " + root + "/two\nbatchfs: hint: choose a directory elsewhere"},
		"one\n\nset":                   {[]string{"index", list}, statusFailed, "line 3: " + root + "/set: its folders are named like parts of a dataset or kinds of files, not like classes: train, val\nbatchfs: hint: name in line 3: " + root + "/set/train; if"},
		"one\nthree":                   {[]string{"index", list}, statusFailed, "line 2: " + root + "/three: dataset does not exist\nbatchfs: hint: ls " + root + " shows"},
		"one\nnumbers.csv":             {[]string{"index", list}, statusFailed, "those of line 2 are numbers, those of line 1 names such as a\nbatchfs: hint: if the numbers"},
		"numbers.csv\none":             {[]string{"index", list, "--classes", filepath.Join(root, "names")}, statusDone, "5 images in 3 classes (a, b, c)"},
		"one\nall.txt":                 {[]string{"index", list}, statusFailed, "line 2: a list of its own; write here what it names\nbatchfs: hint: a list names a dataset in each line"},
		"one\nfile://" + root + "/two": {[]string{"index", list}, statusDone, "8 images in 3 classes"},
		"":                             {[]string{"index", root + "/one", root + "/two"}, statusUsage, "hint: several datasets are one DATASET: a .txt file"},
		"# ":                           {[]string{"mount", root + "/one", root + "/two", inside}, statusUsage, "hint: several datasets are one DATASET: a .txt file"},
		"#":                            {[]string{"mount", "0.tar", "1.tar", "mnt"}, statusUsage, "a pattern in quotes"}, // what a shell makes of one without
	} {
		write(t, root, map[string]string{"all.txt": text})
		if got := batchfs(t, c.args...); got.status != c.status || !strings.Contains(got.out+got.err, c.want) {
			t.Errorf("%q: status %d, %s%s", text, got.status, got.out, got.err)
		}
	}
}

// TestClassesFlag: --classes takes the classes.txt of another mount, and refuses anything else.
func TestClassesFlag(t *testing.T) {
	data, dir := photos(t, 1), t.TempDir()
	write(t, dir, map[string]string{"good": "b\na\nz\n", "short": "a\n", "empty": "", "twice": "a\na\n", "long": strings.Repeat("x", 64<<20+1)})
	got := batchfs(t, "index", data, "--classes", filepath.Join(dir, "good"))
	if got.status != statusDone || !strings.Contains(got.out, "2 images in 3 classes (b, a, z)") {
		t.Errorf("%+v", got)
	}
	for name, want := range map[string]string{
		"none": "no such file or directory", "empty": "it is empty", "twice": `line 2: "a" is in line 1 already`, "long": "it is longer than 64 MiB", ".": "is a directory",
	} {
		path := filepath.Join(dir, name)
		got := batchfs(t, "mount", data, dir, "--classes", path)
		if got.status != statusUsage || !strings.HasPrefix(got.err, "batchfs: error: --classes must be a file of class names, one per line (") || !strings.Contains(got.err, want) {
			t.Errorf("%s: status %d, %s", name, got.status, got.err)
		}
	}
	got = batchfs(t, "index", data, "--classes", filepath.Join(dir, "short"))
	if got.status != statusFailed || !strings.Contains(got.err, `labels do not fit the list of classes: it lacks class "b"`) {
		t.Errorf("a class is missing: %+v", got)
	}
}

// TestManifestFlags: bad metadata and labels say what to change.
func TestManifestFlags(t *testing.T) {
	data := photos(t, 1)
	metadata := func(text string) { write(t, data, map[string]string{"metadata.csv": text}) }
	for _, test := range []struct {
		text, flags, want, hint string
		status                  int
	}{
		{"id,age\n1,2\n", "", `line 1: no "path" or "file_name"`, "--metadata ignore", statusFailed},
		{"file_name,label\na/0.png,0.5\nb/0.png,1\n", "", `line 2: label "0.5" is neither a whole number nor a class name`, "--metadata ignore", statusFailed},
		{"file_name,label\na/0.png,x\n", "--label-column grade", `no row has a label in a column "grade"`, "--metadata ignore", statusFailed},
		{"file_name,label\na/0.png,x\n", "--metadata ignore --label-column grade", "--label-column must be left out: the dataset has no columns, but is \"grade\"", "", statusUsage},
		{"file_name,label\na/0.png,x\n", "--metadata maybe", "--metadata must be auto or ignore", "", statusUsage},
		{"file_name,label\na/0.png,x\n", "--label-column=", "--label-column must be the name of a column", "", statusUsage},
	} {
		metadata(test.text)
		got := batchfs(t, append([]string{"index", data}, strings.Fields(test.flags)...)...)
		message, hint, _ := strings.Cut(got.err, "\nbatchfs: hint: ")
		if got.status != test.status || !strings.Contains(message, test.want) || !strings.Contains(hint, test.hint) {
			t.Errorf("%q with %q: status %d, %s", test.text, test.flags, got.status, got.err)
		}
	}
	write(t, data, map[string]string{"metadata.jsonl": ""})
	if got := batchfs(t, "index", data); !strings.Contains(got.err, "more than one manifest: metadata.csv and metadata.jsonl\nbatchfs: hint: name the one that is meant") {
		t.Errorf("two of them: %+v", got)
	}
}

// TestWhatCannotBeOpened: an archive or a store that cannot be read says why, and what to do.
func TestWhatCannotBeOpened(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	t.Chdir(t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, name := range []string{"photos.tar.gz", "photos.zip", "photos.lmdb"} {
		write(t, ".", map[string]string{name: "x"})
	}
	write(t, "shards", map[string]string{"train-0.tar": "", "val-0.tar": ""})
	for path, want := range map[string][2]string{
		away.URL + "/p.tar":      {"cannot be reached", "--endpoint"},
		"s3://bucket/photos":     {"access denied: no credentials in the environment", "AWS_PROFILE"},
		"hf://datasets/cats":     {"hf://datasets/ORG/DATASET/NAME", ""},
		"gone.tar":               {"gone.tar: dataset does not exist", "ls ."},
		"train-{000..255}.tar":   {"train-000.tar: dataset does not exist", "ls ."},
		"shards":                 {"several parts of a dataset: train, val", "shards/train-*.tar"},
		"photos.tar.gz":          {"compressed as a whole", "unpack it"},
		"photos.zip":             {"photos.zip", "unpack it"},
		"photos.lmdb":            {"not supported", "unpack it"},
		"file:///nowhere/at-all": {"/nowhere/at-all: dataset does not exist", ""},
		"photos":                 {"photos: dataset does not exist", "ls ."},
	} {
		for _, command := range []string{"mount", "index", "verify"} {
			args := []string{command, path}
			if command == "mount" {
				args = append(args, t.TempDir())
			}
			if strings.HasPrefix(path, away.URL) {
				args = append(args, "--storage-wait", "100ms")
			}
			if path == "shards" && command == "verify" { // it takes all parts
				continue
			}
			got := batchfs(t, args...)
			if got.status != statusFailed || !strings.Contains(got.err, want[0]) || !strings.Contains(got.err, want[1]) {
				t.Errorf("%s: status %d, %s", path, got.status, got.err)
			}
		}
	}
}

// TestDenied: a store that denies access is said once, with what to do about it.
func TestDenied(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "sig=1")
	denies := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer denies.Close()
	for args, want := range map[string]string{
		"s3://bucket/x.tar":              "AWS_PROFILE",
		"s3://bucket/x.tar --anonymous":  "leave out --anonymous",
		"gs://bucket/x.tar --anonymous":  "leave out --anonymous",
		"az://c/x.tar":                   "AZURE_STORAGE_SAS_TOKEN",
		"hf://datasets/org/cats/x.tar":   "HF_TOKEN",
		denies.URL + "/x.tar":            "https://USER:PASSWORD@HOST/",
		"S3://bucket/x.tar --region x-1": "AWS_PROFILE",
	} {
		got := batchfs(t, append([]string{"index", "--endpoint", denies.URL}, strings.Fields(args)...)...)
		message, hint, _ := strings.Cut(got.err, "\nbatchfs: hint: ")
		if got.status != statusFailed || strings.Count(message, "access denied: 403, with") != 1 || strings.Contains(message, "\n") || !strings.Contains(hint, want) {
			t.Errorf("%s: status %d, %s", args, got.status, got.err)
		}
	}
}

// TestSecretsStayInside: what a URL or the environment shows a server for access is in nothing that
// batchfs writes.
func TestSecretsStayInside(t *testing.T) {
	const secret = "CANARY123"
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	var asked atomic.Bool
	denies := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(true)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer denies.Close()
	host := strings.TrimPrefix(denies.URL, "http://")
	for _, args := range [][]string{
		{"index", "http://user:" + secret + "@" + host + "/x.tar"}, {"index", denies.URL + "/x.tar?signature=" + secret},
		{"verify", "http://user:" + secret + "@" + host + "/x.csv"}, {"index", "s3://bucket/x.tar", "--endpoint", denies.URL, "--region", "us-east-1"},
		{"mount", denies.URL + "/x.parquet?signature=" + secret, t.TempDir()},
	} {
		asked.Store(false)
		if got := batchfs(t, args...); got.status != statusFailed || strings.Contains(got.out+got.err, secret) || !asked.Load() {
			t.Errorf("%q: asked %v, status %d, %s %s", args, asked.Load(), got.status, got.out, got.err)
		}
	}
}

// TestSummaryGoesWhereItIsSeen: to standard error, and to a log, as long as neither gets two kinds
// of lines.
func TestSummaryGoesWhereItIsSeen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	for _, test := range []struct {
		o         logOptions
		err, file string
	}{
		{logOptions{}, "batchfs: 5 images\n", ""},
		{logOptions{asJSON: true}, `"msg":"5 images"}` + "\n", ""},
		{logOptions{file: file}, "batchfs: 5 images\n", `msg="5 images"` + "\n"},
		{logOptions{file: file, asJSON: true}, "batchfs: 5 images\n", `"msg":"5 images"}` + "\n"},
	} {
		_ = os.Remove(file)
		got := logged(t, test.o, false, func(l *mountLog) { l.state("5 images") })
		text, _ := os.ReadFile(file)
		if !strings.HasSuffix(got, test.err) || strings.Count(got, "\n") != 1 || !strings.HasSuffix(string(text), test.file) || test.file == "" && len(text) > 0 {
			t.Errorf("%+v: %q, and the log %q", test.o, got, text)
		}
	}
}
