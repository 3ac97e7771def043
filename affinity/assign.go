package affinity

// A Source is who chose the CPUs of a worker.
type Source uint8

const (
	None        Source = iota // nobody: the worker is left where the process may run
	List                      // the list that was given
	NVML                      // the GPU's driver
	GPUNode                   // the NUMA node of the GPU's PCI slot
	ProcessNode               // the NUMA nodes that this process may have memory on
)

// String is the source in a user's words.
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

// Assign returns one CPU set for each worker: worker t's is list[t] alone, that of workers
// past the list is [Machine.Near]. An empty set means that the worker is left
// alone, as all are without a list; [Pin] does nothing for it. The whole list is
// checked, also what is past the last worker; the error is an [*EntryError].
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

// Near is where workers past a list run, and who says so: the empty set and None
// where nothing is known but what the process may use.
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

// A Placement is workers whose CPUs were chosen by the same source.
type Placement struct {
	First   int    `json:"first"`   // worker, from 0
	Workers int    `json:"workers"` // how many
	Source  Source `json:"source"`
	CPUs    Set    `json:"cpus"` // of all of them together
}

// Describe says what [Assign] does with the same arguments, for people and documents.
// It expects a list that Assign accepts.
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
