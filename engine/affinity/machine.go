package affinity

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// A Machine is everything that the choice of CPUs depends on.
type Machine struct {
	Allowed    Set    // the CPUs that this process may use, by its affinity and cgroup
	Configured int    // one more than the kernel's highest CPU
	Nodes      []Node // the NUMA nodes, in ascending order; empty if the kernel knows of none
	GPU        *GPU   // nil if none was looked for, or found
	Note       string // why there is no GPU, or no recommendation from NVML; "" if there is one
}

// A Node is a NUMA node.
type Node struct {
	ID     int
	CPUs   Set  // empty if the node has only memory
	Memory bool // this process may have memory there
}

// ThisMachine gathers the facts for this process. gpu is the device to feed: an index in the
// driver's order, from 0, a UUID as shown by nvidia-smi -L or the beginning of one, "" for
// device 0, or [NoGPU]. Looking for a GPU opens the driver, which can take a second if no other
// process has it open. A missing GPU is not an error, but is reported in Machine.Note; an error
// means that the kernel does not say which CPUs may be used.
func ThisMachine(gpu string) (Machine, error) {
	allowed, err := processMask()
	if err != nil {
		return Machine{}, err
	}
	return look(os.DirFS("/"), allowed, gpu, askNVML), nil
}

// processMask returns the CPUs of all threads of the process together. No single thread is
// enough: workers may have been pinned before, and one of them may have run on the process's
// first thread, which keeps its mask when its goroutine ends.
func processMask() (Set, error) {
	all, err := Current()
	if err != nil {
		return Set{}, err
	}
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		if mask, err := maskOf(id); err == nil { // else the thread has ended
			all = all.Or(mask)
		}
	}
	return all, nil
}

// look gathers facts from the root of a file system and from NVML.
func look(root fs.FS, allowed Set, gpu string, ask nvmlQuestion) Machine {
	m := Machine{Allowed: allowed, Configured: configured(root, allowed), Nodes: nodes(root)}
	if gpu != NoGPU {
		m.GPU, m.Note = findGPU(root, gpu, m.Configured, ask)
	}
	return m
}

// configured returns the number of CPUs that a list may name. CPUs that the process may use
// count as configured, whatever /sys says.
func configured(root fs.FS, allowed Set) int {
	present, _ := readSet(root, "sys/devices/system/cpu/present")
	return max(present.end(), allowed.end())
}

// nodes reads the NUMA nodes. A node that cannot be read is skipped: knowing fewer only means
// pinning less.
func nodes(root fs.FS) []Node {
	online, err := readSet(root, "sys/devices/system/node/online")
	if err != nil {
		return nil
	}
	memory, known := memoryNodes(root)
	var all []Node
	for id := range online.All() {
		cpus, err := readSet(root, "sys/devices/system/node/node"+strconv.Itoa(id)+"/cpulist")
		if err != nil {
			continue
		}
		all = append(all, Node{ID: id, CPUs: cpus, Memory: !known || memory.Has(id)})
	}
	return all
}

// memoryNodes returns the nodes on which the process's cgroup allows memory.
func memoryNodes(root fs.FS) (Set, bool) {
	status, err := fs.ReadFile(root, "proc/self/status")
	if err != nil {
		return Set{}, false
	}
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "Mems_allowed_list:"); ok {
			s, err := parseSet(list)
			return s, err == nil
		}
	}
	return Set{}, false
}

func readSet(root fs.FS, name string) (Set, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return Set{}, err
	}
	return parseSet(string(text))
}

// recommended returns NVML's recommendation.
func (m Machine) recommended() Set {
	if m.GPU == nil {
		return Set{}
	}
	return m.GPU.CPUs
}

// gpuNode returns the CPUs of the NUMA node of the GPU's slot.
func (m Machine) gpuNode() Set {
	if m.GPU == nil {
		return Set{}
	}
	for _, n := range m.Nodes {
		if n.ID == m.GPU.Node {
			return n.CPUs
		}
	}
	return Set{}
}

// processNodes returns the CPUs of the NUMA nodes on which the process may have memory.
func (m Machine) processNodes() Set {
	var s Set
	for _, n := range m.Nodes {
		if n.Memory {
			s = s.Or(n.CPUs)
		}
	}
	return s
}
