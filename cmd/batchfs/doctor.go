package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
)

func doctorCommand(c *console) *cli.Command {
	return command("doctor", func(f *flagSet) runner {
		cache := ""
		f.derived("local-cache", "none", "look at `DIR`, which is or will be a local cache", place(&cache, "a directory"))
		jsonFlag(c, f, "print one JSON object")
		return func(ctx context.Context, _ []string) error {
			report := c.examine(ctx)
			if cache != "" {
				report.addLocalCache(cache)
			}
			return c.show(report)
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

type doctorReport struct {
	Version  string              `json:"version"`
	FUSE     fusefs.Capabilities `json:"fuse"`
	Findings []finding           `json:"findings"`
}

// add adds a finding: fine, or the problem and advice about it if the problem is not "".
func (r *doctorReport) add(name, fine, problem, advice string) {
	f := finding{Name: name, OK: problem == "", Found: oneLine(fine)}
	if !f.OK {
		f.Found, f.Advice = oneLine(problem), advice
	}
	r.Findings = append(r.Findings, f)
}

func (c *console) examine(ctx context.Context) doctorReport {
	r := doctorReport{Version: version(), FUSE: fusefs.Probe()}
	r.add("FUSE", "/dev/fuse (kernel "+r.FUSE.Kernel+")",
		unless(r.FUSE.Device == "", "/dev/fuse: "+r.FUSE.Device+" (kernel "+r.FUSE.Kernel+")"), cmp.Or(deviceAdvice(), loadAdvice))
	c.tryMount(ctx, &r)
	r.addKernel()
	c.machine.addMemory(&r)
	r.add("decoders", decode.Version(), unless(strings.Contains(decode.Version(), "libjpeg"), decode.Version()),
		"Go's decoders are several times slower: build with the image libraries: make deps build")
	c.machine.addGPU(&r)
	return r
}

// addLocalCache adds how good a directory is as a --local-cache.
func (r *doctorReport) addLocalCache(dir string) {
	const name = "local cache"
	p, err := dataset.ExamineLocalCache(dir)
	if err != nil {
		r.add(name, "", err.Error(), "use a directory of your own on a local disk, which nobody else may write to: mkdir -p DIR; chmod 700 DIR")
		return
	}
	found := fmt.Sprintf("%s, %s free, %s used", p.FileSystem, formatBytes(p.Free), formatBytes(p.Used))
	if !p.Direct {
		found += ", through the page cache"
	}
	r.add(name, dir+": "+found, unless(p.Local, dir+": "+found+": not a local disk"),
		"a tmpfs takes memory that --memory-limit does not count, and a network is no faster than the store: use a local disk")
}

// unless returns the problem, or "" if all is well.
func unless(well bool, problem string) string {
	if well {
		return ""
	}
	return problem
}

func problem(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// verdict is an error if nothing can be mounted here; the report already says why.
func (r doctorReport) verdict() error {
	if slices.ContainsFunc(r.Findings, func(f finding) bool { return f.Name == mountingFinding && !f.OK }) {
		return exitSilently(statusFailed)
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
	t.Flush()
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

// tryMount adds whether a mount works, and how its readers get their bytes.
func (c *console) tryMount(ctx context.Context, r *doctorReport) {
	readPath, reason, err := fusefs.TryMount(ctx, c.machine.defaultMemoryLimit())
	r.add(mountingFinding, "a test mount worked", problem(err), unless(deviceAdvice() != "", // another finding already has this advice
		"mount as root, or, to mount as an ordinary user: sudo apt-get install fuse3; in a container: --cap-add SYS_ADMIN"))
	if err != nil {
		r.add("passthrough", "", "not tested, since mounting failed", "")
		return
	}
	r.add("passthrough", "reads and maps bypass the daemon",
		unless(readPath == "passthrough", "unavailable, reads go through the daemon: "+reason),
		"needs Linux 6.9 and CAP_SYS_ADMIN: mount as root, with --allow-other for the others; in a container --cap-add SYS_ADMIN, without user namespaces")
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

// shortTimeout is the kernel request timeout, in seconds, below which an open that waits
// for a slow decode could be taken for a hung daemon.
const shortTimeout = 60

// addKernel adds what the kernel and its settings allow.
func (r *doctorReport) addKernel() {
	f := r.FUSE
	r.add("fusermount3", cmp.Or(f.Fusermount, "not installed; root does not need it"), unless(f.Fusermount != "" || f.SysAdmin, "not installed"),
		"ordinary users need it to mount: sudo apt-get install fuse3")
	r.add("--allow-other", "allowed", unless(f.SysAdmin || f.UserAllowOther, "only for root"),
		"to let others read your mounts: echo user_allow_other | sudo tee -a /etc/fuse.conf")
	name, seconds := "default_request_timeout", f.DefaultTimeout
	if seconds <= 0 || seconds >= shortTimeout {
		name, seconds = "max_request_timeout", f.MaxTimeout
	}
	r.add("request timeout", "none, or long enough", unless(seconds <= 0 || seconds >= shortTimeout, fmt.Sprintf("%d s", seconds)),
		fmt.Sprintf("an open that waits longer ends the whole mount: sudo sysctl fs.fuse.%s=0", name))
}

// enoughLocked is the batch memory of a typical mount, and as much as a training process page-locks
// to copy it to a GPU.
const enoughLocked = 1 << 30

// addMemory adds which kinds of memory batches can have.
func (m host) addMemory(r *doctorReport) {
	files, reuse, locking := engine.ExamineMemory(enoughLocked)
	const huge, good = "huge pages", "on a private tmpfs"
	switch setting := m.line("sys/kernel/mm/transparent_hugepage/shmem_enabled"); {
	case files != nil:
		r.add(huge, good, problem(files), "batches use ordinary memory; mount as root to use a tmpfs with huge pages")
	case setting == "":
		r.add(huge, good, "this kernel does not support them on tmpfs",
			"batches use small pages, which are slower to read; use a kernel with CONFIG_TRANSPARENT_HUGEPAGE")
	default:
		r.add(huge, good, unless(!strings.Contains(setting, "[deny]"), "disabled for tmpfs"),
			"echo never | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled (a mount requests them itself)")
	}
	r.add("memory reuse", "batches reuse the memory of earlier ones", problem(reuse),
		"every batch needs newly cleared memory, which is slower: sudo sysctl fs.leases-enable=1")
	r.add("memory locking", "at least "+formatBytes(enoughLocked), problem(locking),
		"batch memory may be swapped out, and GPUs copy from it more slowly: "+
			"set memlock in /etc/security/limits.conf, then ulimit -l unlimited; or LimitMEMLOCK=infinity for systemd")
}

// line is the first line of a kernel file; "" if there is none.
func (m host) line(name string) string {
	text, _ := fs.ReadFile(m.files, name)
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first)
}
