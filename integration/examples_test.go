package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// imageFolder trains the network of examples/pytorch.py with torchvision's ImageFolder, for as
// many steps.
const imageFolder = `
import sys, torch
from torchvision import datasets, transforms
import batchfs
from pytorch import accuracy, loss_of, network
t = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
def load(name, **options):
    loader = torch.utils.data.DataLoader(datasets.ImageFolder(sys.argv[1] + "/" + name, t), 32, **options)
    for x, y in loader:
        yield batchfs.Batch(x, y, None, torch.ones(len(y), dtype=torch.bool))
torch.manual_seed(0)
model = network(10)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for epoch in range(5):
    for batch in load("train", shuffle=True):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
print(f"accuracy {accuracy(model, load('val')):.4f}")
`

// TestExamples: the programs of examples/ learn scikit-learn's digits about as well as the usual
// loader teaches them; linear classifiers cannot quite.
func TestExamples(t *testing.T) {
	inStageOfItsOwn(t)
	python := testkit.Python(t, "torch", "torchvision", "sklearn", "PIL")
	digits := filepath.Join(scratch(t), "digits")
	runExample(t, python, "../examples/digits.py", digits)
	accuracy := func(t *testing.T, out string) float64 {
		t.Helper()
		return figure(t, "accuracy", out)
	}
	mount := func(name string, flags ...string) string {
		return mountBatchfs(t, filepath.Join(digits, name), append(flags, "--batch-size", "32")...).dir
	}
	normal := []string{"--dtype", "float32", "--normalize", "imagenet"}
	planes := append([]string{"--layout", "nchw"}, normal...)
	small := []string{"--resize", "stretch", "--size", "32x32"}
	train, val := mount("train", append(planes, "--shuffle")...), mount("val", append(planes, "--last-batch", "partial")...)
	trainHWC, valHWC := mount("train", append(normal, "--shuffle")...), mount("val", normal...)
	trainBytes, valBytes := mount("train", append(small, "--shuffle")...), mount("val", small...)

	usual := accuracy(t, runExample(t, python, "-c", imageFolder, digits))
	if usual < 0.95 {
		t.Fatalf("the usual loader reaches only %.4f", usual)
	}
	for _, e := range []struct {
		name       string
		train, val string
		args       []string
		modules    []string
	}{
		{"pytorch", train, val, nil, nil},
		{"pytorch_lightning_loop", train, val, nil, []string{"pytorch_lightning"}},
		{"accelerate_loop", train, val, nil, []string{"accelerate"}},
		{"hf_trainer", train, val, nil, []string{"accelerate", "transformers"}},
		{"jax_flax", trainHWC, valHWC, nil, []string{"jax", "flax", "optax"}},
		{"jax_flax", trainHWC, valHWC, []string{"--grain"}, []string{"jax", "flax", "optax", "grain"}},
		{"keras_fit", trainHWC, valHWC, nil, []string{"keras", "jax"}},
	} {
		t.Run(strings.Join(append([]string{e.name}, e.args...), ""), func(t *testing.T) {
			python := testkit.Python(t, append(e.modules, "torch")...)
			if e.name == "pytorch_lightning_loop" { // Debian's PyTorch 1.13 is too old for parts of it in Python 3.11
				if out, err := exec.Command(python, "-c", "import pytorch_lightning").CombinedOutput(); err != nil {
					t.Skipf("SKIPPED: Lightning cannot be imported: %s", out[max(0, len(out)-200):])
				}
			}
			if a := accuracy(t, runExample(t, python, append([]string{"../examples/" + e.name + ".py", e.train, e.val, "--epochs", "5"}, e.args...)...)); a < usual-0.02 {
				t.Errorf("accuracy %.4f, the usual loader %.4f", a, usual)
			}
		})
	}
	t.Run("C", func(t *testing.T) {
		program := filepath.Join(scratch(t), "softmax")
		runExample(t, "cc", "-O2", "-Wall", "-Werror", "-o", program, "../examples/softmax.c", "-lm")
		if a := accuracy(t, runExample(t, program, trainBytes, valBytes, "5")); a < usual-0.05 {
			t.Errorf("accuracy %.4f, the usual loader and network %.4f", a, usual)
		}
	})
	t.Run("R", func(t *testing.T) {
		if _, err := exec.LookPath("Rscript"); err != nil {
			t.Skip("SKIPPED: no Rscript here")
		}
		if a := accuracy(t, runExample(t, "Rscript", "../examples/softmax.R", trainBytes, valBytes, "5")); a < usual-0.05 {
			t.Errorf("accuracy %.4f, the usual loader and network %.4f", a, usual)
		}
	})
	t.Run("distributed", func(t *testing.T) {
		dir, shards := scratch(t), mountBatchfs(t, filepath.Join(digits, "train"), append(planes, "--shuffle", "--shards", "2", "--batch-size", "16")...).dir
		for _, steps := range []string{"30", "40", "1000"} { // of 45 in an epoch
			// Without the flags of output, PyTorch 1.13 fails in Python 3.11, whose enumerations
			// leave out 0.
			runExample(t, python, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0",
				"--redirects", "1", "--tee", "1", "--log_dir", dir, "../examples/pytorch_distributed.py", shards,
				"--epochs", "2", "--steps", steps, "--checkpoint", filepath.Join(dir, "state"), "--log", filepath.Join(dir, "log"))
		}
		everySampleOnce(t, dir, 2, 1437)
	})
}

// TestExamplesWithTargets: programs trained from the mounts in their docstrings find classes of
// pixels and boxes of objects; docs/measurements says how well they do with more images and epochs.
// The comparisons with torchvision run. In a short run, the programs take few images and only one
// epoch, which teaches nothing yet.
func TestExamplesWithTargets(t *testing.T) {
	inStageOfItsOwn(t)
	mountsOf := func(t *testing.T, program, data string) (mounts []string) {
		text := strings.ReplaceAll(string(mustRead(t, program)), "\\\n", " ")
		for _, m := range regexp.MustCompile(`batchfs mount --daemon (.*) (\S+) \S+\n`).FindAllStringSubmatch(text, -1) {
			_, folder, _ := strings.Cut(m[2], "/")
			mounts = append(mounts, mountBatchfs(t, filepath.Join(data, folder), strings.Fields(m[1])...).dir)
		}
		return mounts
	}
	for _, e := range []struct {
		name    string
		gen     []string
		metric  string
		epochs  string
		atLeast float64
		modules []string // that the comparison with torchvision needs
	}{
		{"segmentation", []string{"--kind", "cityscape", "--targets", "--images", "40", "--format", "jpeg"}, "mean IoU", "40", 0.65, []string{"torchvision", "PIL"}},
		{"detector", []string{"--kind", "coco", "--images", "1000"}, "average precision", "12", 0.65, []string{"torchvision", "PIL", "pycocotools"}},
	} {
		if testing.Short() {
			e.gen, e.epochs, e.atLeast = append(e.gen, "--images", "12"), "1", 0
		}
		t.Run(e.name, func(t *testing.T) {
			python, program, data := testkit.Python(t, "torch", "numpy"), "../examples/"+e.name+".py", filepath.Join(scratch(t), "data")
			execute(t, append([]string{"gen", "--out", data}, e.gen...)...).done(t)
			mounts := mountsOf(t, program, data)
			out := runExample(t, python, append([]string{program, "--epochs", e.epochs}, mounts...)...)
			t.Log(out)
			if got := figure(t, e.metric, out); got < e.atLeast {
				t.Errorf("%s %.3f, at least %.3f expected", e.metric, got, e.atLeast)
			}
			t.Run("torchvision", func(t *testing.T) {
				python := testkit.Python(t, append(e.modules, "torch")...)
				figure(t, e.metric, runExample(t, python, program, "--torchvision", data, "--epochs", "1"))
			})
		})
	}
}

// runExample runs a program of examples/, and returns what it printed.
func runExample(t *testing.T, name string, args ...string) string {
	t.Helper()
	modules, err := filepath.Abs("../python")
	check(t, err)
	examples, err := filepath.Abs("../examples")
	check(t, err)
	return runProgram(t, "", []string{"PYTHONPATH=" + modules + ":" + examples, "KERAS_BACKEND=jax", "JAX_PLATFORMS=cpu"}, name, args...)
}

// figure returns the number that a program printed for something.
func figure(t *testing.T, of, out string) float64 {
	t.Helper()
	m := regexp.MustCompile(of + ` ([0-9.]+)\n`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no %s in %q", of, out)
	}
	a, err := strconv.ParseFloat(m[1], 64)
	check(t, err)
	return a
}

// everySampleOnce checks what the ranks of pytorch_distributed.py logged: each epoch has every
// sample exactly once.
func everySampleOnce(t *testing.T, dir string, epochs, samples int) {
	seen := map[string][]int{}
	for rank := range 2 {
		for line := range strings.Lines(string(mustRead(t, filepath.Join(dir, fmt.Sprintf("log.%d", rank))))) {
			fields := strings.Fields(line)
			for _, id := range fields[1:] {
				n, err := strconv.Atoi(id)
				check(t, err)
				seen[fields[0]] = append(seen[fields[0]], n)
			}
		}
	}
	for epoch := range epochs {
		ids := seen[strconv.Itoa(epoch)]
		slices.Sort(ids)
		if len(ids) != samples || len(slices.Compact(ids)) != samples || ids[0] != 0 || ids[samples-1] != samples-1 {
			t.Errorf("epoch %d has %d samples, of %d", epoch, len(ids), samples)
		}
	}
}

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
