package affinity

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// A Machine is everything that the choice of CPUs depends on.
type Machine struct {
	Allowed    Set // the CPUs that this process may use, by its affinity and cgroup
	Configured int // one more than the kernel's highest CPU
	// Places are CPUs for workers past the end of a list, best first, whether or not they are
	// allowed: those recommended by NVML, of the GPU's NUMA node, and of the nodes on which this
	// process may have memory. Empty ones are not known.
	Places [3]Set
}

// ThisMachine gathers the facts for this process. gpu is the device to feed: an index in the
// driver's order, from 0, a UUID as shown by nvidia-smi -L or the beginning of one, "" for
// device 0, or [NoGPU]. Looking for a GPU opens the driver, which can take a second if no other
// process has it open. A missing GPU is not an error; an error means that the kernel does not
// say which CPUs may be used.
func ThisMachine(gpu string) (Machine, error) {
	allowed, err := Current()
	if err != nil {
		return Machine{}, err
	}
	// No single thread is enough: workers may have been pinned before, and one of them may have
	// run on the process's first thread, which keeps its mask when its goroutine ends.
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		if mask, err := maskOf(id); err == nil { // else the thread has ended
			allowed = allowed.or(mask)
		}
	}
	return look(os.DirFS("/"), allowed, gpu, askNVML), nil
}

// look gathers facts from the root of a file system and from NVML. CPUs that the process may
// use count as configured, whatever /sys says.
func look(root fs.FS, allowed Set, gpu string, ask nvmlQuestion) Machine {
	present := readSet(root, "sys/devices/system/cpu/present")
	m := Machine{Allowed: allowed, Configured: max(present.end(), allowed.end())}
	if gpu != NoGPU {
		g := findGPU(root, gpu, m.Configured, ask)
		m.Places[0] = g.cpus
		m.Places[1] = nodeCPUs(root, lineAfter(root, pciDevices+"/"+g.slot+"/numa_node", ""))
	}
	online := readSet(root, "sys/devices/system/node/online")
	memory, _ := parseSet(lineAfter(root, "proc/self/status", "Mems_allowed_list:"))
	if len(memory) > 0 { // else the kernel does not say
		online = online.and(memory)
	}
	for _, node := range online {
		m.Places[2] = m.Places[2].or(nodeCPUs(root, strconv.Itoa(node)))
	}
	return m
}

// nodeCPUs returns the CPUs of a NUMA node; none if it has only memory, or is "-1" or unknown.
func nodeCPUs(root fs.FS, node string) Set {
	return readSet(root, "sys/devices/system/node/node"+node+"/cpulist")
}

// readSet reads a set from a file; what cannot be read is empty. Knowing less only means pinning
// less.
func readSet(root fs.FS, name string) Set {
	s, _ := parseSet(lineAfter(root, name, ""))
	return s
}

// lineAfter returns the rest of a file's first line that starts with prefix, without blanks
// around it; "" if there is none. An empty prefix means the first line.
func lineAfter(root fs.FS, name, prefix string) string {
	text, _ := fs.ReadFile(root, name)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}
