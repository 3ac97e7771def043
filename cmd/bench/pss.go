package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// held is the memory of some processes, in bytes. Its PSS counts each page that several share once;
// a page that processes outside share, too, in part. shm are the files in /dev/shm that they have
// open, which pass batches between processes: what they have mapped is in the PSS, too.
type held struct{ pss, shm float64 }

// memoryOf is what processes hold. Those that have ended hold nothing.
func memoryOf(pids []int) (h held, err error) {
	seen := map[uint64]bool{}
	for _, pid := range pids {
		kb, err := number(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
		if err != nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			continue
		}
		if err != nil {
			return h, err
		}
		h.pss += float64(kb << 10)
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, fd := range open {
			var st syscall.Stat_t
			to, err := os.Readlink(fd)
			if err != nil || !strings.HasPrefix(to, "/dev/shm/") || syscall.Stat(fd, &st) != nil || seen[st.Ino] {
				continue
			}
			seen[st.Ino] = true
			h.shm += float64(512 * st.Blocks)
		}
	}
	return h, nil
}

// group is the processes of a process group.
func group(leader int) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent group ...
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(fields) > 2 && fields[2] == strconv.Itoa(leader) {
			pids = append(pids, pid)
		}
	}
	return pids
}
