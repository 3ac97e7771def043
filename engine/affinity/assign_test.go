package affinity

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
)

// twoSockets is a machine of 2 nodes with 16 cores of two threads each, and a GPU next to the
// second.
func twoSockets(change func(*Machine)) Machine {
	m := Machine{
		Allowed:    must(parseSet("0-63")),
		Configured: 64,
		Nodes: []Node{
			{ID: 0, CPUs: must(parseSet("0-15,32-47")), Memory: true},
			{ID: 1, CPUs: must(parseSet("16-31,48-63")), Memory: true},
		},
		GPU: &GPU{Node: 1, CPUs: must(parseSet("16-31,48-63"))},
	}
	if change != nil {
		change(&m)
	}
	return m
}

func TestNear(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Machine)
		cpus   string
		source Source
	}{
		{"nvml", nil, "16-31,48-63", NVML},
		{"nvml within the allowed", func(m *Machine) { m.Allowed = must(parseSet("0-3,20,21,50")) }, "20-21,50", NVML},
		{"nvml names more CPUs than there are", func(m *Machine) { m.GPU.CPUs = must(parseSet("60-200")) }, "60-63", NVML},
		{"nvml's are not allowed, nor the GPU's node", func(m *Machine) { m.Allowed = must(parseSet("2-5")) }, "2-5", ProcessNode},
		{"nvml's are not allowed, but some of the GPU's node", func(m *Machine) {
			m.GPU.CPUs = Of(16, 17)
			m.Allowed = must(parseSet("0-3,18-20"))
		}, "18-20", GPUNode},
		{"no nvml", func(m *Machine) { m.GPU.CPUs = Set{} }, "16-31,48-63", GPUNode},
		{"a GPU on node 0", func(m *Machine) { *m.GPU = GPU{Node: 0} }, "0-15,32-47", GPUNode},
		{"a GPU whose node is unknown", func(m *Machine) { *m.GPU = GPU{Node: -1} }, "0-63", ProcessNode},
		{"a GPU on a node without CPUs", func(m *Machine) {
			*m.GPU = GPU{Node: 2}
			m.Nodes = append(m.Nodes, Node{ID: 2, Memory: true})
		}, "0-63", ProcessNode},
		{"no GPU", func(m *Machine) { m.GPU = nil }, "0-63", ProcessNode},
		{"no GPU, memory of one node", func(m *Machine) { m.GPU, m.Nodes[0].Memory = nil, false }, "16-31,48-63", ProcessNode},
		{"no GPU, memory of one node, CPUs of the other", func(m *Machine) {
			m.GPU, m.Nodes[0].Memory, m.Allowed = nil, false, Of(1, 2)
		}, "", None},
		{"no GPU, CPUs of one node", func(m *Machine) { m.GPU, m.Allowed = nil, Of(17) }, "17", ProcessNode},
		{"no GPU, no nodes", func(m *Machine) { m.GPU, m.Nodes = nil, nil }, "", None},
	} {
		cpus, source := twoSockets(c.change).Near()
		if cpus.String() != c.cpus || source != c.source {
			t.Errorf("%s: %q, %s", c.name, cpus, source)
		}
	}
}

func TestAssign(t *testing.T) {
	const near = "16-31,48-63"
	for _, c := range []struct {
		list    []int
		workers int
		want    []string
	}{
		{nil, 3, []string{"", "", ""}},
		{[]int{}, 1, []string{""}},
		{[]int{3, 5, 6, 10}, 5, []string{"3", "5", "6", "10", near}},
		{[]int{3, 5, 6, 10}, 2, []string{"3", "5"}},
		{[]int{7, 7, 7}, 3, []string{"7", "7", "7"}},
		{[]int{63}, 4, []string{"63", near, near, near}},
		{[]int{0}, 0, nil},
	} {
		sets, err := Assign(c.list, c.workers, twoSockets(nil))
		var got []string
		for _, s := range sets {
			got = append(got, s.String())
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v, %d workers: %q, %v", c.list, c.workers, got, err)
		}
	}
}

func TestAssignRefuses(t *testing.T) {
	m := twoSockets(func(m *Machine) { m.Allowed = must(parseSet("0-3,20")) })
	for _, c := range []struct {
		list []int
		want string
	}{
		{[]int{64}, `entry 1 must be below 64, the number of CPUs configured, not "64"`},
		{[]int{0, -1}, `entry 2 must be below 64, the number of CPUs configured, not "-1"`},
		{[]int{0, 1, 4}, `entry 3 must be one of the CPUs this process may use, 0-3,20, not "4"`},
		{[]int{0, 1, 2, 3, 21, 99}, `entry 5 must be one of the CPUs this process may use, 0-3,20, not "21"`},
	} {
		sets, err := Assign(c.list, 2, m) // including entries past the last worker
		var entry *EntryError
		if sets != nil || !errors.As(err, &entry) || err.Error() != c.want {
			t.Errorf("%v: %v, %v", c.list, sets, err)
		}
	}
}

// Describe reports what Assign does.
func TestDescribe(t *testing.T) {
	m := twoSockets(nil)
	for _, c := range []struct {
		list    []int
		workers int
		want    string
	}{
		{nil, 2, `[{"first":0,"workers":2,"source":"none","cpus":""}]`},
		{[]int{3, 5, 6, 10}, 5, `[{"first":0,"workers":4,"source":"list","cpus":"3,5-6,10"},{"first":4,"workers":1,"source":"nvml","cpus":"16-31,48-63"}]`},
		{[]int{3, 5, 6, 10}, 3, `[{"first":0,"workers":3,"source":"list","cpus":"3,5-6"}]`},
	} {
		placements := Describe(c.list, c.workers, m)
		if text, err := json.Marshal(placements); err != nil || string(text) != c.want {
			t.Errorf("%v, %d workers: %s, %v", c.list, c.workers, text, err)
		}
		sets, err := Assign(c.list, c.workers, m)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range placements {
			var union Set
			for _, s := range sets[p.First : p.First+p.Workers] {
				union = union.Or(s)
			}
			if !union.Equal(p.CPUs) {
				t.Errorf("%v, %d workers: %s, not %s", c.list, c.workers, p.CPUs, union)
			}
		}
	}
}

func TestSourceText(t *testing.T) {
	want := map[Source]string{None: "none", List: "list", NVML: "nvml", GPUNode: "pci numa node", ProcessNode: "process numa node"}
	for s, text := range want {
		if s.String() != text {
			t.Errorf("source %d is %q", s, s)
		}
	}
}
