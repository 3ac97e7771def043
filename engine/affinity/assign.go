package affinity

// A Source is what determined the CPUs of a worker.
type Source uint8

const (
	None        Source = iota // nothing: the worker runs wherever the process may
	List                      // the given list
	NVML                      // the GPU's driver
	GPUNode                   // the NUMA node of the GPU's PCI slot
	ProcessNode               // the NUMA nodes on which this process may have memory
)

// String is the source as shown to users.
func (s Source) String() string {
	switch s {
	case List:
		return "list"
	case NVML:
		return "nvml"
	case GPUNode:
		return "pci numa node"
	case ProcessNode:
		return "process numa node"
	default:
		return "none"
	}
}

// MarshalText is String, for documents.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Assign returns one CPU set for each worker: list[t] alone for worker t, and [Machine.Near] for
// workers past the end of the list. An empty set, as for all workers without a list, means that
// the worker is not pinned; [Pin] does nothing for it. The whole list is checked, including
// entries past the last worker; the error is an [*EntryError].
func Assign(list []int, workers int, m Machine) ([]Set, error) {
	if err := check(list, m); err != nil {
		return nil, err
	}
	sets := make([]Set, workers)
	if len(list) == 0 {
		return sets, nil
	}
	listed := min(len(list), workers)
	for t, cpu := range list[:listed] {
		sets[t] = Of(cpu)
	}
	if listed < workers {
		near, _ := m.Near()
		for t := listed; t < workers; t++ {
			sets[t] = near
		}
	}
	return sets, nil
}

// Near returns the CPUs for workers past the end of a list, and their source; the empty set and
// None if nothing is known but the CPUs that the process may use.
func (m Machine) Near() (Set, Source) {
	for _, choice := range []struct {
		cpus   Set
		source Source
	}{
		{m.recommended(), NVML},
		{m.gpuNode(), GPUNode},
		{m.processNodes(), ProcessNode},
	} {
		if s := choice.cpus.And(m.Allowed); !s.Empty() {
			return s, choice.source
		}
	}
	return Set{}, None
}

// A Placement is a group of workers whose CPUs have the same source.
type Placement struct {
	First   int    `json:"first"`   // worker, from 0
	Workers int    `json:"workers"` // number of workers
	Source  Source `json:"source"`
	CPUs    Set    `json:"cpus"` // of all of them together
}

// Describe says what [Assign] does with the same arguments, for people and documents. The list
// must be one that Assign accepts.
func Describe(list []int, workers int, m Machine) []Placement {
	var placements []Placement
	listed := min(len(list), workers)
	if listed > 0 {
		placements = append(placements, Placement{0, listed, List, Of(list[:listed]...)})
	}
	if listed == workers {
		return placements
	}
	rest := Placement{First: listed, Workers: workers - listed}
	if len(list) > 0 {
		rest.CPUs, rest.Source = m.Near()
	}
	return append(placements, rest)
}
