package fusefs

import (
	"bufio"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Capabilities is what this machine offers to a mount by this process.
type Capabilities struct {
	Kernel         string `json:"kernel"`           // release, such as 6.9.0
	Device         string `json:"device"`           // why /dev/fuse cannot be used; empty when it can
	SysAdmin       bool   `json:"sys_admin"`        // may mount without fusermount
	Fusermount     string `json:"fusermount"`       // path of the program that mounts for users; empty without
	UserAllowOther bool   `json:"user_allow_other"` // users may let others in
	Passthrough    bool   `json:"passthrough"`      // the kernel can serve batches by itself
	Reason         string `json:"reason"`           // why it cannot; empty when it can
	MaxPages       int    `json:"max_pages"`        // pages in one request, 0 where the kernel does not say
	DefaultTimeout int    `json:"default_timeout"`  // seconds after which the kernel aborts a mount, 0 never
	MaxTimeout     int    `json:"max_timeout"`      // the same, as a limit set by the administrator
}

// Probe finds out. Passthrough is tried on a memory file, on a connection of its
// own; nothing is mounted and nothing left behind.
func Probe() Capabilities {
	c := Capabilities{
		Kernel:         kernelRelease(),
		SysAdmin:       privileged(),
		UserAllowOther: userAllowOther(),
		MaxPages:       fuseSetting("max_pages_limit"),
		DefaultTimeout: fuseSetting("default_request_timeout"),
		MaxTimeout:     fuseSetting("max_request_timeout"),
	}
	c.Fusermount, _ = findFusermount()
	if err := openDevice(); err != nil {
		c.Device = err.Error()
	}
	if err := tryMemoryFile(); err != nil {
		c.Reason = err.Error()
	}
	c.Passthrough = c.Reason == ""
	return c
}

func openDevice() error {
	fd, err := unix.Open(fuseDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func tryMemoryFile() error {
	fd, err := unix.MemfdCreate("batchfs-probe", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return tryPassthrough(fd)
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// fuseSetting reads one of the kernel's settings of FUSE; 0 where there is none.
func fuseSetting(name string) int {
	text, err := os.ReadFile("/proc/sys/fs/fuse/" + name)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return n
}

// userAllowOther reports whether /etc/fuse.conf lets users let others in.
func userAllowOther() bool {
	text, err := os.ReadFile("/etc/fuse.conf")
	return err == nil && hasLine(string(text), "user_allow_other")
}

// hasLine looks for a line that is one word and perhaps a comment.
func hasLine(text, word string) bool {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(line) == word {
			return true
		}
	}
	return false
}

// warnOfTimeouts tells of settings under which the kernel aborts the whole mount
// when one open waits too long.
func warnOfTimeouts(log *slog.Logger) {
	for _, name := range []string{"default_request_timeout", "max_request_timeout"} {
		if n := fuseSetting(name); n > 0 {
			log.Warn("the kernel aborts the mount when a batch takes longer than this to make", "sysctl", "fs.fuse."+name, "seconds", n)
		}
	}
}
