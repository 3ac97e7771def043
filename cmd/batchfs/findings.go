package main

import (
	"debug/elf"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/pinned"
)

// What doctor looks at, one function each.

func fuseDevice(c fusefs.Capabilities) finding {
	if c.Device != "" {
		return poor("FUSE", "/dev/fuse: "+c.Device+" (kernel "+c.Kernel+")", deviceAdvice())
	}
	return good("FUSE", "/dev/fuse (kernel %s)", c.Kernel)
}

// deviceAdvice is what to do where the device of FUSE cannot be used, "" where
// it can.
func deviceAdvice() string {
	switch err := unix.Access("/dev/fuse", unix.R_OK|unix.W_OK); err {
	case nil:
		return ""
	case unix.EACCES:
		return "sudo chmod 666 /dev/fuse"
	default:
		return "load the module: sudo modprobe fuse; in a container: --device /dev/fuse --cap-add SYS_ADMIN"
	}
}

func fusermount(c fusefs.Capabilities) finding {
	switch {
	case c.Fusermount != "":
		return good("fusermount3", "%s", c.Fusermount)
	case c.SysAdmin:
		return good("fusermount3", "not installed, and not needed by root")
	}
	return poor("fusermount3", "not installed", "ordinary users mount through it: sudo apt-get install fuse3")
}

func allowOther(c fusefs.Capabilities) finding {
	if c.SysAdmin || c.UserAllowOther {
		return good("--allow-other", "allowed")
	}
	return poor("--allow-other", "only for root", "to let others read your mounts: echo user_allow_other | sudo tee -a /etc/fuse.conf")
}

// shortTimeout is the time, in seconds, under which an open that waits for a
// slow decode could be taken for a daemon that hangs.
const shortTimeout = 60

func requestTimeout(c fusefs.Capabilities) finding {
	for _, limit := range []struct {
		name    string
		seconds int
	}{{"default_request_timeout", c.DefaultTimeout}, {"max_request_timeout", c.MaxTimeout}} {
		if limit.seconds > 0 && limit.seconds < shortTimeout {
			return poor("request timeout", fmt.Sprintf("%d s", limit.seconds),
				fmt.Sprintf("an open that waits longer ends the whole mount: sudo sysctl fs.fuse.%s=0", limit.name))
		}
	}
	return good("request timeout", "none that matters")
}

func (m machine) hugePages() finding {
	const name = "huge pages"
	store := pinned.NewStore(1 << 20)
	defer store.Close()
	setting := m.line("sys/kernel/mm/transparent_hugepage/shmem_enabled")
	switch {
	case !store.Files():
		return poor(name, store.Reason().Error(), "batches live in ordinary memory; a mount by root has a tmpfs with huge pages")
	case setting == "":
		return poor(name, "this kernel has none for tmpfs", "batches live in small pages, which are slower to read; it takes a kernel with CONFIG_TRANSPARENT_HUGEPAGE")
	case strings.Contains(setting, "[deny]"):
		return poor(name, "denied for tmpfs", "echo never | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled (a mount asks for them by itself)")
	}
	return good(name, "on a private tmpfs")
}

// leases are how a mount learns that nobody looks at a batch's memory any more.
func (m machine) leases() finding {
	const name = "file leases"
	if m.line("proc/sys/fs/leases-enable") == "0" {
		return poor(name, "switched off", "batch memory is freed instead of used again, which makes batches slower: sudo sysctl fs.leases-enable=1")
	}
	if err := tryLease(); err != nil {
		return poor(name, err.Error(), "batch memory is freed instead of used again, which makes batches slower; it takes a tmpfs with leases")
	}
	return good(name, "batch memory is used again")
}

// tryLease does what a mount does with a buffer that its readers have closed.
func tryLease() error {
	store := pinned.NewStore(1 << 20)
	defer store.Close()
	if !store.Files() { // without files, there is nothing that readers could hold
		return nil
	}
	fd, err := store.File()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return fmt.Errorf("lease a file: %w", err)
	}
	return nil
}

// enoughLocked is the batch memory of a usual mount, and what a training process
// page-locks of it to copy it to a GPU.
const enoughLocked = 1 << 30

func memoryLocking() finding {
	const name = "memory locking"
	if err := pinned.CanLock(enoughLocked); err != nil {
		return poor(name, err.Error(),
			"batch memory may be swapped out, and GPUs copy slower from it: ulimit -l unlimited, after memlock in /etc/security/limits.conf, or LimitMEMLOCK=infinity for systemd")
	}
	return good(name, "%s and more", formatBytes(enoughLocked))
}

// decoders says what decodes, and whether this program carries it along.
func decoders() finding {
	const name = "decoders"
	if !strings.Contains(decode.Version(), "libjpeg") {
		return poor(name, decode.Version(), "Go's own decoders are several times slower: build with the image libraries, make deps build")
	}
	if libraries := imageLibraries(); len(libraries) > 0 {
		return good(name, "%s; from the system: %s", decode.Version(), strings.Join(libraries, ", "))
	}
	return good(name, "%s; linked in", decode.Version())
}

// imageLibraries lists the image libraries that this program loads.
func imageLibraries() (names []string) {
	binary, err := elf.Open("/proc/self/exe")
	if err != nil {
		return nil
	}
	defer binary.Close()
	libraries, _ := binary.ImportedLibraries() // none in a static program
	for _, l := range libraries {
		for _, image := range []string{"libjpeg", "libturbojpeg", "libpng", "libwebp", "libdeflate"} {
			if strings.HasPrefix(l, image) {
				names = append(names, l)
			}
		}
	}
	return names
}

func (m machine) processors() finding { return good("CPUs", "%d may be used", m.cpus) }

func (m machine) memoryShare() finding {
	text := formatBytes(m.physicalMemory())
	if group, ok := m.groupMemory(); ok && group < m.physicalMemory() {
		text += ", of which the control group allows " + formatBytes(group)
	}
	return good("memory", "%s; --memory-limit is %s unless you say otherwise", text, formatBytes(m.defaultMemoryLimit()))
}

// gpu only looks whether one is there: batches are made by the CPUs, but who
// asks wants to know where they go next.
func (m machine) gpu() finding {
	const name = "GPU"
	switch {
	case m.exists("dev/nvidia0"):
		return good(name, "NVIDIA %s", m.line("proc/driver/nvidia/version"))
	case m.exists("dev/kfd"):
		return good(name, "AMD")
	}
	return good(name, "none seen")
}

func (c *console) indexes() finding {
	const name = "indexes"
	if c.env.cacheDir == "" {
		return poor(name, "not kept: neither XDG_CACHE_HOME nor HOME is set", "every mount scans its dataset again: export XDG_CACHE_HOME=DIRECTORY")
	}
	if err := os.MkdirAll(c.env.cacheDir, 0o755); err != nil {
		return poor(name, err.Error(), "every mount scans its dataset again: export XDG_CACHE_HOME=DIRECTORY")
	}
	return good(name, "kept in %s", c.env.cacheDir)
}
