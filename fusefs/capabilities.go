package fusefs

import (
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Capabilities is what this machine offers to a mount by this process.
type Capabilities struct {
	Kernel         string `json:"kernel"`           // release, such as 6.9.0
	Device         string `json:"device"`           // why /dev/fuse is unusable; empty if it is usable
	SysAdmin       bool   `json:"sys_admin"`        // may mount without fusermount
	Fusermount     string `json:"fusermount"`       // path of fusermount, which mounts for users; empty: none
	UserAllowOther bool   `json:"user_allow_other"` // users may use allow_other
	Passthrough    bool   `json:"passthrough"`      // the kernel can serve batches itself
	Reason         string `json:"reason"`           // why it cannot; empty if it can
	MaxPages       int    `json:"max_pages"`        // pages per request; 0 if the kernel does not say
	DefaultTimeout int    `json:"default_timeout"`  // seconds after which the kernel aborts a mount; 0: never
	MaxTimeout     int    `json:"max_timeout"`      // the administrator's limit on DefaultTimeout
}

// Probe determines the capabilities. It tries passthrough on a memory file, over a FUSE
// connection of its own. Nothing is mounted or left behind.
func Probe() Capabilities {
	c := Capabilities{
		SysAdmin: privileged(), UserAllowOther: userAllowOther(), MaxPages: fuseSetting("max_pages_limit"),
		DefaultTimeout: fuseSetting("default_request_timeout"), MaxTimeout: fuseSetting("max_request_timeout"),
	}
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err == nil {
		c.Kernel = unix.ByteSliceToString(kernel.Release[:])
	}
	c.Fusermount, _ = findFusermount()
	if device, err := unix.Open(fuseDevice, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		c.Device = err.Error()
	} else {
		unix.Close(device)
	}
	fd, err := unix.MemfdCreate("batchfs-probe", unix.MFD_CLOEXEC)
	if err == nil {
		err = tryPassthrough(fd)
		unix.Close(fd)
	}
	if c.Passthrough = err == nil; err != nil {
		c.Reason = err.Error()
	}
	return c
}

// tryPassthrough asks the kernel to back an inode with fd, over a FUSE connection of its
// own that is attached nowhere, and returns why it refuses. It leaves nothing behind, so it
// can run before the mount is made.
func tryPassthrough(fd int) error {
	opts := &fuse.MountOptions{FsName: mountName, Name: mountName, MaxWrite: smallRequest, MaxStackDepth: stackDepth,
		DisableSplice: true, Logger: log.New(io.Discard, "", 0)}
	c, mount, err := detachedConnection(fuse.NewDefaultRawFileSystem(), opts)
	if err != nil {
		return err
	}
	defer func() {
		unix.Close(mount) // ends the connection
		c.device.Close()
		c.server.Serve() // notices the end, and closes the device
	}()
	if c.server.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH == 0 {
		return errors.New("the kernel does not offer it (Linux 6.9 or newer does)")
	}
	id, errno := c.server.RegisterBackingFd(&fuse.BackingMap{Fd: int32(fd)})
	switch errno {
	case 0:
		c.server.UnregisterBackingFd(id)
		return nil
	case unix.EPERM:
		return fmt.Errorf("CAP_SYS_ADMIN in the initial user namespace is missing: %w", errno)
	case unix.ELOOP:
		return fmt.Errorf("the file system under batch memory cannot be served: %w", errno)
	}
	return fmt.Errorf("the kernel refuses the file: %w", error(errno))
}

// fuseSetting reads one of the kernel's FUSE settings; 0 if it does not exist.
func fuseSetting(name string) int {
	text, _ := os.ReadFile("/proc/sys/fs/fuse/" + name)
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// warnOfTimeouts warns of settings that make the kernel abort the whole mount if one open
// takes too long.
func warnOfTimeouts(log *slog.Logger) {
	for _, name := range []string{"default_request_timeout", "max_request_timeout"} {
		if n := fuseSetting(name); n > 0 {
			log.Warn("the kernel aborts the mount when a batch takes longer than this to make", "sysctl", "fs.fuse."+name, "seconds", n)
		}
	}
}

// allowsOther matches a fuse.conf that permits users to use allow_other.
var allowsOther = regexp.MustCompile(`(?m)^[ \t]*user_allow_other[ \t]*(#.*)?$`)

func userAllowOther() bool {
	text, _ := os.ReadFile("/etc/fuse.conf")
	return allowsOther.Match(text)
}
