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

// The checks of doctor, one function each.

func fuseDevice(c fusefs.Capabilities) finding {
	if c.Device != "" {
		return poor("FUSE", "/dev/fuse: "+c.Device+" (kernel "+c.Kernel+")", deviceAdvice())
	}
	return good("FUSE", "/dev/fuse (kernel %s)", c.Kernel)
}

// deviceAdvice returns advice if /dev/fuse is unusable, "" otherwise.
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
		return good("fusermount3", "not installed; root does not need it")
	}
	return poor("fusermount3", "not installed", "ordinary users need it to mount: sudo apt-get install fuse3")
}

func allowOther(c fusefs.Capabilities) finding {
	if c.SysAdmin || c.UserAllowOther {
		return good("--allow-other", "allowed")
	}
	return poor("--allow-other", "only for root", "to let others read your mounts: echo user_allow_other | sudo tee -a /etc/fuse.conf")
}

// shortTimeout is the kernel request timeout, in seconds, below which an open that waits
// for a slow decode could be taken for a hung daemon.
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
	return good("request timeout", "none, or long enough")
}

func (m machine) hugePages() finding {
	const name = "huge pages"
	store := pinned.NewStore(1 << 20)
	defer store.Close()
	setting := m.line("sys/kernel/mm/transparent_hugepage/shmem_enabled")
	switch {
	case !store.Files():
		return poor(name, store.Reason().Error(), "batches use ordinary memory; mount as root to use a tmpfs with huge pages")
	case setting == "":
		return poor(name, "this kernel does not support them on tmpfs", "batches use small pages, which are slower to read; use a kernel with CONFIG_TRANSPARENT_HUGEPAGE")
	case strings.Contains(setting, "[deny]"):
		return poor(name, "disabled for tmpfs", "echo never | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled (a mount requests them itself)")
	}
	return good(name, "on a private tmpfs")
}

func memoryReuse() finding {
	const name = "memory reuse"
	store := pinned.NewStore(1 << 20)
	defer store.Close()
	if err := store.Leases(); err != nil {
		return poor(name, err.Error(), "every batch needs newly cleared memory, which is slower: sudo sysctl fs.leases-enable=1")
	}
	return good(name, "batches reuse the memory of earlier ones")
}

// enoughLocked is the batch memory of a typical mount, and what a training process
// page-locks of it to copy it to a GPU.
const enoughLocked = 1 << 30

func memoryLocking() finding {
	const name = "memory locking"
	if err := pinned.CanLock(enoughLocked); err != nil {
		return poor(name, err.Error(),
			"batch memory may be swapped out, and GPUs copy from it more slowly: set memlock in /etc/security/limits.conf, then ulimit -l unlimited; or LimitMEMLOCK=infinity for systemd")
	}
	return good(name, "at least %s", formatBytes(enoughLocked))
}

// decoders reports the decoders and whether they are linked into this program.
func decoders() finding {
	const name = "decoders"
	if !strings.Contains(decode.Version(), "libjpeg") {
		return poor(name, decode.Version(), "Go's decoders are several times slower: build with the image libraries: make deps build")
	}
	if libraries := imageLibraries(); len(libraries) > 0 {
		return good(name, "%s; from the system: %s", decode.Version(), strings.Join(libraries, ", "))
	}
	return good(name, "%s; linked in", decode.Version())
}

// imageLibraries lists the image libraries that this program loads dynamically.
func imageLibraries() (names []string) {
	binary, err := elf.Open("/proc/self/exe")
	if err != nil {
		return nil
	}
	defer binary.Close()
	libraries, _ := binary.ImportedLibraries() // none in a static binary
	for _, l := range libraries {
		for _, image := range []string{"libjpeg", "libturbojpeg", "libpng", "libwebp", "libdeflate"} {
			if strings.HasPrefix(l, image) {
				names = append(names, l)
			}
		}
	}
	return names
}

func (m machine) processors() finding { return good("CPUs", "%d available", m.cpus) }

func (m machine) memoryShare() finding {
	host := m.host()
	machine, lowest, share := host.Machine(), host.Lowest(), host.Share()
	text := fmt.Sprintf("%s, %s free", formatBytes(machine.Total), formatBytes(machine.Left))
	if lowest.Total < machine.Total {
		text += fmt.Sprintf("; %s allows %s, %s free", lowest.Name, formatBytes(lowest.Total), formatBytes(lowest.Left))
	}
	if share.Mounts > 1 {
		text += "; shared with " + count(share.Mounts-1, "mount")
	}
	return good("memory", "%s; --memory-limit defaults to %s", text, formatBytes(share.Limit))
}

// gpu only reports whether there is a GPU. Batches are made by the CPUs, but the user wants
// to know where they go next.
func (m machine) gpu() finding {
	const name = "GPU"
	switch {
	case m.exists("dev/nvidia0"):
		return good(name, "NVIDIA %s", m.line("proc/driver/nvidia/version"))
	case m.exists("dev/kfd"):
		return good(name, "AMD")
	}
	return good(name, "none found")
}

func (c *console) indexes() finding {
	const name = "indexes"
	if c.env.cacheDir == "" {
		return poor(name, "not kept: neither XDG_CACHE_HOME nor HOME is set", "every mount scans its dataset again; to keep indexes: export XDG_CACHE_HOME=DIRECTORY")
	}
	if err := os.MkdirAll(c.env.cacheDir, 0o755); err != nil {
		return poor(name, err.Error(), "every mount scans its dataset again; to keep indexes: export XDG_CACHE_HOME=DIRECTORY")
	}
	return good(name, "kept in %s", c.env.cacheDir)
}
