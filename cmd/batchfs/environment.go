package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/machine"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/store"
)

// environment holds everything taken from environment variables. They are read here and
// nowhere else; the packages below get plain values.
type environment struct {
	cacheDir     string         // where indexes are stored; "": nowhere
	notifySocket string         // where systemd expects the ready notification
	affinity     string         // CPUs of the workers, unless a flag gives them
	gpus         string         // CUDA_VISIBLE_DEVICES
	azureAccount string         // of az://CONTAINER/NAME
	azureToken   string         // a shared access signature
	hubToken     string         // of Hugging Face
	hubTokenFile string         // that holds it otherwise
	vectors      string         // the vector instructions to use; "": the fastest that the processor has
	engine       engine.Options // of mounts: how buffers grow and shrink
	engineError  error          // why that could not be parsed
}

// affinityVariable is the environment variable for --affinity.
const affinityVariable = "BATCHFS_AFFINITY_MASK"

// vectorsVariable is the environment variable that lowers the level of vector instructions, to
// measure what other processors would do. The bytes of batches do not depend on it.
const vectorsVariable = "BATCHFS_CPU"

func readEnvironment(lookup func(string) (value string, set bool), uid int) environment {
	getenv := func(name string) string {
		value, _ := lookup(name)
		return value
	}
	e := environment{
		cacheDir:     cacheDir(getenv, uid),
		notifySocket: getenv("NOTIFY_SOCKET"),
		affinity:     getenv(affinityVariable),
		gpus:         getenv("CUDA_VISIBLE_DEVICES"),
		vectors:      getenv(vectorsVariable),
		azureAccount: getenv("AZURE_STORAGE_ACCOUNT"),
		azureToken:   getenv("AZURE_STORAGE_SAS_TOKEN"),
		hubToken:     getenv("HF_TOKEN"),
		hubTokenFile: cmp.Or(getenv("HF_TOKEN_PATH"), filepath.Join(cmp.Or(getenv("HF_HOME"), filepath.Join(getenv("HOME"), ".cache", "huggingface")), "token")),
	}
	if gpus, set := lookup("CUDA_VISIBLE_DEVICES"); set && gpus == "" { // an empty list means none, as for CUDA
		e.gpus = gpuNone
	}
	e.engineError = e.engine.Memory.Read(getenv)
	return e
}

// tokens sets the tokens that stores get, besides those that the vendors' libraries find.
func (e environment) tokens(o *store.Options) {
	o.Account, o.Signature, o.Token = e.azureAccount, e.azureToken, e.hubToken
	if o.Token == "" {
		text, _ := os.ReadFile(e.hubTokenFile) // it may be missing: most datasets are public
		o.Token = strings.TrimSpace(string(text))
	}
}

// cacheDir follows the XDG base directory specification. Under fstab and systemd, HOME may
// be unset; root then uses the system's cache directory.
func cacheDir(getenv func(string) string, uid int) string {
	if dir := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "batchfs")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "batchfs")
	}
	if uid == 0 {
		return "/var/cache/batchfs"
	}
	return ""
}

// host is the part of the computer that a mount has to share, as kernel files describe it. Its root
// is a file system so that tests can substitute other machines.
type host struct {
	files fs.FS
	cpus  int // CPUs this process may use
}

func thisHost() host { return host{files: os.DirFS("/"), cpus: runtime.GOMAXPROCS(0)} }

// memory returns the machine's memory accounting.
func (m host) memory() *machine.Memory { return machine.NewMemory(m.files) }

// defaultMemoryLimit is half of the machine's memory, since the training program needs the
// rest, divided among the mounts. It is at most half of the free memory.
func (m host) defaultMemoryLimit() int64 { return m.memory().Share().Limit }

const (
	affinityFlag = "affinity"
	hintsFlag    = "bytes-per-sample"
)

// setKernels makes all computations of a mount use the environment's vector instructions.
func (e environment) setKernels(o *engine.Options) error {
	if e.vectors == "" {
		return nil
	}
	if levels := engine.VectorLevels(); !slices.Contains(levels, e.vectors) {
		return usage("%s must be one of %s on this processor, not %q", vectorsVariable, strings.Join(levels, ", "), e.vectors)
	}
	o.UseVectors(e.vectors)
	return nil
}

// place sets the CPUs of the workers, from the flag or the environment.
func (c *console) place(f *flagSet, o *engine.Options) error {
	if c.env.engineError != nil {
		return wrongUsage(c.env.engineError)
	}
	list, source, gpu := c.env.affinity, affinityVariable, ""
	if f.Changed(affinityFlag) {
		list, source = f.text(affinityFlag), "--"+affinityFlag
	}
	if f.Changed(gpuFlag) && f.text(gpuFlag) != gpuAuto {
		gpu = f.text(gpuFlag)
	}
	var err error
	o.Affinity, o.NearDevice, err = machine.Place(list, o.Workers, gpu, c.env.gpus)
	if errors.Is(err, machine.ErrNoneNear) {
		return hint(fmt.Errorf("%s gpu: %w", source, err), "batchfs doctor; or name CPUs: --affinity LIST")
	}
	if entry, ok := errors.AsType[*option.Error](err); ok {
		return usage("%s must be a list of CPU numbers, as in 3,5,6,10, or gpu, but in %q %s", source, list, entry.Error())
	}
	return err
}
