package machine

import "strings"

// Processors are the facts that the choice of CPUs depends on.
type Processors struct {
	Allowed CPUs // the CPUs that this process may use, by its affinity and cgroup
	Near    CPUs // the Allowed CPUs that NVML recommends for the GPU; empty if unknown
}

// GPUUse is how much of a GPU all processes together use.
type GPUUse struct {
	MemoryUsed, MemoryTotal int64   // bytes
	Busy                    float64 // share of the last moment, at most a second, in which a kernel ran; -1 if unknown, as for parts of a GPU
	MIG                     bool    // the GPU is divided into parts
}

// NoGPU, as a list of devices, means that no GPU is looked for and no driver opened.
const NoGPU = "none"

// deviceFor is the device that choice means among CUDA_VISIBLE_DEVICES: an index counts in that
// list, and a UUID is itself. As for CUDA, an entry that names no device ends the list.
func deviceFor(choice, devices string) string {
	i, isIndex := number(choice)
	if !isIndex || devices == "" {
		return choice
	}
	for _, device := range strings.Split(devices, ",") {
		gpu, found := firstOf(device)
		if !found || gpu == "" {
			break
		}
		if i--; i < 0 {
			return gpu
		}
	}
	return NoGPU
}

// FindProcessors gathers the facts for this process. It must be called on a thread that is not
// pinned. devices is the value of CUDA_VISIBLE_DEVICES, whose first device is the one that the
// workers feed; "" means the machine's first. An index counts in the driver's order; CUDA puts the
// fastest device first, which is the same if all are alike. Looking for a GPU opens the driver,
// which can take a second if no other process has it open. A missing GPU is not an error; an error
// means that the kernel does not say which CPUs may be used.
func FindProcessors(devices string) (Processors, error) {
	allowed, err := CurrentCPUs()
	if err != nil {
		return Processors{}, err
	}
	m := Processors{Allowed: allowed}
	if gpu, found := firstOf(devices); found {
		m.Near = recommended(gpu, allowed[len(allowed)-1]+1).and(allowed)
	}
	return m, nil
}

// firstOf returns the first device of a list: an index, a UUID as shown by nvidia-smi -L or the
// beginning of one, or "" for the first existing one. As for CUDA, an entry that names no device
// ends the list.
func firstOf(devices string) (gpu string, found bool) {
	gpu, _, _ = strings.Cut(devices, ",")
	gpu = strings.Trim(gpu, blanks)
	_, isIndex := number(gpu)
	return gpu, devices == "" || isIndex || strings.HasPrefix(gpu, "GPU-") || strings.HasPrefix(gpu, "MIG-")
}
