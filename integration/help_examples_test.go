package integration

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/fakestore"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/testkit"
)

// TestExamplesOfHelp runs the examples in the help of every command, word for word, in a directory
// with everything they mention: generated datasets, empty directories for mounts, and a mount for
// the commands that look at one. s3:// is a store on this machine. Everything is run, but on a
// smaller scale: no dataset is as large as ImageNet, batches are smaller, measurements take only a
// moment, and the parts of an array job run one after another on one machine.
func TestExamplesOfHelp(t *testing.T) {
	inStageOfItsOwn(t)
	skipWithoutFUSE(t)
	photos := scratch(t)
	check(t, gen.Write(t.Context(), gen.Options{Dir: photos, Images: 8, Classes: 4, Format: "jpeg", Workers: 2}))
	commands := 0
	for line := range strings.Lines(between(t, helpOf(t), "\nCommands:\n", "\n\n")) {
		commands++
		name := strings.Fields(line)[0]
		t.Run(name, func(t *testing.T) { runExamples(t, helpOf(t, name), name, photos) })
	}
	if commands < 14 {
		t.Errorf("the help names %d commands", commands)
	}
	t.Run("batchfs", func(t *testing.T) { runExamples(t, helpOf(t), "batchfs", photos) })
}

// runExamples runs the examples of a command. Their datasets are copies of photos.
func runExamples(t *testing.T, help, name, photos string) {
	script := strings.ReplaceAll("\n"+between(t, help, "\nExamples:\n\n", "\n\n"), "\n    ", "\n")
	if !strings.Contains(script, "\nbatchfs ") && !strings.Contains(script, "(batchfs ") {
		t.Fatalf("no examples in\n%s", help)
	}
	if strings.Contains(script, "&\n") {
		t.Fatalf("the shell would not say how a command in the background ended:\n%s", script)
	}
	dir := scratch(t)
	for _, empty := range []string{"mnt", "eval", "rank3", "files", "shared", "bucket"} {
		check(t, os.Mkdir(filepath.Join(dir, empty), 0o755))
	}
	for _, dataset := range []string{"photos", "train", "val", "bucket/train"} {
		if name != "gen" && name != "batchfs" { // they make their own
			check(t, os.CopyFS(filepath.Join(dir, dataset), os.DirFS(photos)))
		}
	}
	store := httptest.NewServer(&fakestore.Server{Dir: dir})
	defer store.Close()
	path := filepath.Dir(suite.binary)
	if strings.Contains(script, "numpy") {
		python := filepath.Join(scratch(t), "python3")
		check(t, os.Symlink(testkit.Python(t, "numpy"), python))
		path += string(os.PathListSeparator) + filepath.Dir(python)
	}
	run := func(script string) {
		t.Helper()
		cmd := exec.Command(needTool(t, "bash"), "-euc", script)
		cmd.Dir = dir
		cmd.Env = append(thisUser().environment(), "PATH="+path+string(os.PathListSeparator)+os.Getenv("PATH"), "TMPDIR="+dir,
			"XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "AWS_ENDPOINT_URL_S3="+store.URL, "AWS_REGION=nowhere", "AWS_ACCESS_KEY_ID=me", "AWS_SECRET_ACCESS_KEY=secret")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s\n%s", err, script, out)
		}
	}
	t.Cleanup(func() {
		run("for mnt in mnt eval rank3 files; do if mountpoint -q $mnt; then batchfs umount $mnt; fi; done")
	})
	if name == "stats" || name == "umount" || name == "why" {
		run("batchfs mount --daemon --batch-size 2 photos mnt")
	}
	run(strings.NewReplacer("batchfs profile", "batchfs profile --duration 10ms", "--raw-ratio auto", "--raw-ratio auto --duration 10ms",
		"batchfs bench", "batchfs bench --rounds 1", "--images 1000", "--images 50", "--images 100", "--images 12",
		"--batch-size 256", "--batch-size 16", "--batch-size 64", "--batch-size 8").Replace(script))
}

// helpOf returns what a command prints with --help.
func helpOf(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.Command(suite.binary, append(command, "--help")...).Output()
	check(t, err)
	return string(out)
}

// between is the part of a text between two others.
func between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, text, found := strings.Cut(text, from)
	text, _, ended := strings.Cut(text, to)
	if !found || !ended {
		t.Fatalf("no %q, or no %q behind it, in\n%s", from, to, text)
	}
	return text
}
