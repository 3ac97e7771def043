package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/pinned"
	"github.com/batchfs/batchfs/shard"
)

func doctorCommand(c *console) *cobra.Command {
	return command("doctor", func(f *flagSet) runner {
		var asJSON bool
		jsonFlag(f, &asJSON, "print one JSON object")
		return func(ctx context.Context, _ []string) error {
			report := c.examine(ctx)
			if err := show(c.out, report, asJSON); err != nil {
				return err
			}
			return report.verdict()
		}
	})
}

// finding is the result of one check. Advice says what to do about it and is empty if it is OK.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// find makes a finding, which is OK if there is no advice about it.
func find(name, found, advice string) finding {
	return finding{name, advice == "", oneLine(found), advice}
}

type doctorReport struct {
	Version  string              `json:"version"`
	FUSE     fusefs.Capabilities `json:"fuse"`
	Findings []finding           `json:"findings"`
}

func (c *console) examine(ctx context.Context) doctorReport {
	r := doctorReport{Version: version(), FUSE: fusefs.Probe()}
	add := func(name string, look func() (found, advice string)) {
		found, advice := look()
		r.Findings = append(r.Findings, find(name, found, advice))
	}
	caps, m := capabilities(r.FUSE), c.machine
	add("FUSE", caps.device)
	r.Findings = append(r.Findings, c.tryMount(ctx)...)
	add("fusermount3", caps.fusermount)
	add("--allow-other", caps.allowOther)
	add("request timeout", caps.requestTimeout)
	add("huge pages", m.hugePages)
	add("memory reuse", memoryReuse)
	add("memory locking", memoryLocking)
	add("decoders", decoders)
	add("CPUs", func() (found, advice string) { return fmt.Sprintf("%d available", m.cpus), "" })
	add("memory", m.memoryShare)
	add("GPU", m.gpu)
	add("indexes", c.indexes)
	return r
}

// verdict is an error if nothing can be mounted here; the report already says why.
func (r doctorReport) verdict() error {
	for _, f := range r.Findings {
		if f.Name == mountingFinding && !f.OK {
			return &saidError{statusFailed}
		}
	}
	return nil
}

func (r doctorReport) print(out io.Writer) {
	t := newTable(out)
	t.row("", "batchfs\t%s", r.Version)
	for _, f := range r.Findings {
		mark := "ok"
		if !f.OK {
			mark = "!!"
		}
		t.row(mark, "%s\t%s", f.Name, f.Found)
	}
	t.end()
	heading := "\nwhat to do:\n"
	for _, f := range r.Findings {
		if f.Advice != "" {
			fmt.Fprintf(out, "%s  %s: %s\n", heading, f.Name, f.Advice)
			heading = ""
		}
	}
}

// mountingFinding is the finding that decides the exit status.
const mountingFinding = "mounting"

// tryMount mounts a dataset of one pixel: the only way to find out what works.
func (c *console) tryMount(ctx context.Context) []finding {
	readPath, reason, err := c.onePixelMount(ctx)
	if err != nil {
		failed := find(mountingFinding, err.Error(), "")
		if failed.OK = false; deviceAdvice() == "" { // the finding about FUSE has that
			failed.Advice = "mount as root, or, to mount as an ordinary user: sudo apt-get install fuse3; in a container: --cap-add SYS_ADMIN"
		}
		return []finding{failed, {Name: "passthrough", Found: "not tested, since mounting failed"}}
	}
	passthrough := find("passthrough", "reads and maps bypass the daemon", "")
	if readPath != "passthrough" {
		passthrough = find("passthrough", "unavailable, reads go through the daemon: "+reason,
			"needs Linux 6.9 and CAP_SYS_ADMIN: mount as root, with --allow-other for the others; in a container --cap-add SYS_ADMIN, without user namespaces")
	}
	return []finding{find(mountingFinding, "a test mount worked", ""), passthrough}
}

func (c *console) onePixelMount(ctx context.Context) (readPath, reason string, err error) {
	dir, err := os.MkdirTemp("", "batchfs-doctor-")
	if err != nil {
		return "", "", err
	}
	data, mnt := filepath.Join(dir, "data"), filepath.Join(dir, "mnt")
	// Remove them one by one, so that nothing is deleted through a mount that did not end.
	defer func() {
		err = errors.Join(err, os.RemoveAll(data), os.Remove(mnt), os.Remove(dir))
	}()
	err = errors.Join(os.Mkdir(data, 0o700), os.Mkdir(mnt, 0o700), os.WriteFile(filepath.Join(data, "pixel.ppm"), []byte("P5 1 1 255\n\x00"), 0o600))
	if err != nil {
		return "", "", err
	}
	ds, err := (&console{err: io.Discard}).openDataset(ctx, data, dataset.Options{Workers: 1, Logger: quiet})
	if err != nil {
		return "", "", err
	}
	defer ds.Close()
	e, err := engine.New(ds, engine.Options{
		Config: shard.Config{Shards: 1, BatchSize: 1, PadLastBatch: true}, Epochs: 1, Decoding: decode.Options{MaxPixels: 1},
		Workers: 1, BatchWorkers: 1, MemoryLimit: c.machine.defaultMemoryLimit(), Logger: quiet,
	})
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	m, err := fusefs.Mount(mnt, e, fusefs.Options{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), ReadPath: "auto", Logger: quiet})
	if err != nil {
		return "", "", err
	}
	defer c.signals.own(m)()
	if err := m.Unmount(); err != nil {
		return "", "", errors.Join(err, m.Detach())
	}
	return m.ReadPath(), m.Reason(), nil
}

// capabilities are what the checks of FUSE look at.
type capabilities fusefs.Capabilities

func (c capabilities) device() (found, advice string) {
	if c.Device != "" {
		return "/dev/fuse: " + c.Device + " (kernel " + c.Kernel + ")", cmp.Or(deviceAdvice(), loadAdvice)
	}
	return "/dev/fuse (kernel " + c.Kernel + ")", ""
}

// deviceAdvice returns advice if /dev/fuse is unusable, "" otherwise.
func deviceAdvice() string {
	switch err := unix.Access("/dev/fuse", unix.R_OK|unix.W_OK); err {
	case nil:
		return ""
	case unix.EACCES:
		return "sudo chmod 666 /dev/fuse"
	default:
		return loadAdvice
	}
}

const loadAdvice = "load the module: sudo modprobe fuse; in a container: --device /dev/fuse --cap-add SYS_ADMIN"

func (c capabilities) fusermount() (found, advice string) {
	switch {
	case c.Fusermount != "":
		return c.Fusermount, ""
	case c.SysAdmin:
		return "not installed; root does not need it", ""
	}
	return "not installed", "ordinary users need it to mount: sudo apt-get install fuse3"
}

func (c capabilities) allowOther() (found, advice string) {
	if c.SysAdmin || c.UserAllowOther {
		return "allowed", ""
	}
	return "only for root", "to let others read your mounts: echo user_allow_other | sudo tee -a /etc/fuse.conf"
}

// shortTimeout is the kernel request timeout, in seconds, below which an open that waits
// for a slow decode could be taken for a hung daemon.
const shortTimeout = 60

func (c capabilities) requestTimeout() (found, advice string) {
	name, seconds := "default_request_timeout", c.DefaultTimeout
	if seconds <= 0 || seconds >= shortTimeout {
		name, seconds = "max_request_timeout", c.MaxTimeout
	}
	if seconds > 0 && seconds < shortTimeout {
		return fmt.Sprintf("%d s", seconds), fmt.Sprintf("an open that waits longer ends the whole mount: sudo sysctl fs.fuse.%s=0", name)
	}
	return "none, or long enough", ""
}

func (m machine) hugePages() (found, advice string) {
	store := pinned.NewStore(1 << 20)
	defer store.Close()
	setting := m.line("sys/kernel/mm/transparent_hugepage/shmem_enabled")
	switch {
	case !store.Files():
		return store.Reason().Error(), "batches use ordinary memory; mount as root to use a tmpfs with huge pages"
	case setting == "":
		return "this kernel does not support them on tmpfs",
			"batches use small pages, which are slower to read; use a kernel with CONFIG_TRANSPARENT_HUGEPAGE"
	case strings.Contains(setting, "[deny]"):
		return "disabled for tmpfs", "echo never | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled (a mount requests them itself)"
	}
	return "on a private tmpfs", ""
}

func memoryReuse() (found, advice string) {
	if err := pinned.Leases(); err != nil {
		return err.Error(), "every batch needs newly cleared memory, which is slower: sudo sysctl fs.leases-enable=1"
	}
	return "batches reuse the memory of earlier ones", ""
}

// enoughLocked is the batch memory of a typical mount, and what a training process
// page-locks of it to copy it to a GPU.
const enoughLocked = 1 << 30

func memoryLocking() (found, advice string) {
	if err := pinned.CanLock(enoughLocked); err != nil {
		return err.Error(), "batch memory may be swapped out, and GPUs copy from it more slowly: " +
			"set memlock in /etc/security/limits.conf, then ulimit -l unlimited; or LimitMEMLOCK=infinity for systemd"
	}
	return "at least " + formatBytes(enoughLocked), ""
}

func decoders() (found, advice string) {
	if !strings.Contains(decode.Version(), "libjpeg") {
		advice = "Go's decoders are several times slower: build with the image libraries: make deps build"
	}
	return decode.Version(), advice
}

func (m machine) memoryShare() (found, advice string) {
	host := m.host()
	machine, lowest, share := host.Machine(), host.Lowest(), host.Share()
	found = fmt.Sprintf("%s, %s free", formatBytes(machine.Total), formatBytes(machine.Left))
	if lowest.Total < machine.Total {
		found += fmt.Sprintf("; %s allows %s, %s free", lowest.Name, formatBytes(lowest.Total), formatBytes(lowest.Left))
	}
	if share.Mounts > 1 {
		found += "; shared with " + count(share.Mounts-1, "mount")
	}
	return found + "; --memory-limit defaults to " + formatBytes(share.Limit), ""
}

// gpu only reports whether there is a GPU. Batches are made by the CPUs, but the user wants
// to know where they go next.
func (m machine) gpu() (found, advice string) {
	has := func(device string) bool {
		_, err := fs.Stat(m.files, device)
		return err == nil
	}
	switch {
	case has("dev/nvidia0"):
		return "NVIDIA " + m.line("proc/driver/nvidia/version"), ""
	case has("dev/kfd"):
		return "AMD", ""
	}
	return "none found", ""
}

// line is the first line of a kernel file; "" if there is none.
func (m machine) line(name string) string {
	text, _ := fs.ReadFile(m.files, name)
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first)
}

func (c *console) indexes() (found, advice string) {
	advice = "every mount scans its dataset again; to keep indexes: export XDG_CACHE_HOME=DIRECTORY"
	if c.env.cacheDir == "" {
		return "not kept: neither XDG_CACHE_HOME nor HOME is set", advice
	}
	if err := os.MkdirAll(c.env.cacheDir, 0o755); err != nil {
		return err.Error(), advice
	}
	return "kept in " + c.env.cacheDir, ""
}
