package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestRecipes runs what a new user copies: the commands at the top of docs/getting-started.md, then
// the README's program, word for word.
func TestRecipes(t *testing.T) {
	inStageOfItsOwn(t)
	python := testkit.Python(t, "numpy", "torch")
	dir := scratch(t)
	run := func(name string, args ...string) string {
		t.Helper()
		return runProgram(t, dir, []string{"TMPDIR=" + dir}, name, args...)
	}
	t.Cleanup(func() {
		for _, name := range []string{"train", "val"} {
			_ = exec.Command(suite.binary, "umount", "--lazy", filepath.Join(dir, name)).Run() // where it came to be mounted
		}
	})
	run("sh", "-ec", block(t, "../docs/getting-started.md", "```\n"))
	program := block(t, "../README.md", "```python\n")
	out := run(python, "-c", "import torch\nmodel = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(48, 4))\n"+
		strings.Replace(program, "range(10)", "range(2)", 1)+"\nprint('epoch', epoch, 'finite', loss.isfinite().item(), 'of 40:', 0 <= right <= 40, len(ids))\n")
	if want := "epoch 1 finite True of 40: tensor(True) 64\n"; !strings.HasSuffix(out, want) {
		t.Errorf("the README's program ended with %q, want %q", out, want)
	}
}

// blockWith returns the first block that contains a word.
func blockWith(t *testing.T, path, fence, word string) string {
	t.Helper()
	for text := range strings.SplitSeq(string(mustRead(t, path)), "\n"+fence) {
		if text, _, ended := strings.Cut(text, "```\n"); ended && strings.Contains(text, word) {
			return text
		}
	}
	t.Fatalf("%s has no block with %s", path, word)
	return ""
}

// block returns the first block of a document with this fence.
func block(t *testing.T, path, fence string) string {
	t.Helper()
	_, after, ok := strings.Cut(string(mustRead(t, path)), "\n"+fence)
	text, _, ended := strings.Cut(after, "```\n")
	if !ok || !ended {
		t.Fatalf("%s has no block that begins with %q", path, fence)
	}
	return text
}
