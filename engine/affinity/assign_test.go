package affinity

import (
	"errors"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/internal/option"
)

// twoSockets is a machine of 2 nodes with 16 cores of two threads each, and a GPU next to the
// second, whose CPUs NVML recommends.
func twoSockets(allowed string) Machine {
	return Machine{
		Allowed: must(parseSet(allowed)), Configured: 64,
		Places: [3]Set{must(parseSet("16-31,48-63")), must(parseSet("16-31,48-63")), must(parseSet("0-63"))},
	}
}

// TestNear looks at a machine of 2 nodes with 4 CPUs each. Its second GPU is on node 1, its
// third on a node that is not known.
func TestNear(t *testing.T) {
	const all = "0-7"
	status := func(mems string) map[string]string {
		return map[string]string{"proc/self/status": "Mems_allowed_list:\t" + mems + "\n"}
	}
	for _, c := range []struct {
		name    string
		gpu     string
		nvml    string // its recommendation; "none": no NVML
		allowed string
		files   map[string]string
		cpus    string
	}{
		{"nvml", "1", "4-6", all, nil, "4-6"},
		{"nvml within the allowed", "1", "4-7", "0-1,5,7", nil, "5,7"},
		{"nvml names more CPUs than there are", "1", "6-200", all, nil, "6-7"},
		{"nvml's are not allowed, nor the GPU's node", "1", "4-7", "2-3", nil, "2-3"},
		{"nvml's are not allowed, but some of the GPU's node", "1", "4", "0-3,5-6", nil, "5-6"},
		{"nvml recommends none", "1", "", all, nil, "4-7"},
		{"no nvml", "1", "none", all, nil, "4-7"},
		{"a GPU on node 0", "0", "none", all, nil, "0-3"},
		{"a GPU whose node is unknown", "2", "none", all, nil, all},
		{"a GPU on a node without CPUs", "1", "none", all, map[string]string{"sys/devices/system/node/node1/cpulist": "\n"}, "0-3"},
		{"no GPU", NoGPU, "none", all, nil, all},
		{"no GPU, memory of one node", NoGPU, "none", all, status("1"), "4-7"},
		{"no GPU, memory of one node, CPUs of the other", NoGPU, "none", "1-2", status("1"), ""},
		{"no GPU, CPUs of one node", NoGPU, "none", "5", nil, "5"},
		{"no GPU, no nodes", NoGPU, "none", all, map[string]string{"sys/devices/system/node/online": ""}, ""},
	} {
		m := look(files(with(sockets, c.files)), must(parseSet(c.allowed)), c.gpu, func(string, int) (device, bool) {
			if c.nvml == "none" {
				return device{}, false
			}
			return device{slot: "0000:65:00.0", cpus: must(parseSet(c.nvml))}, true
		})
		if cpus := m.Near(); cpus.String() != c.cpus {
			t.Errorf("%s: %q", c.name, cpus)
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
		sets, err := Assign(c.list, c.workers, twoSockets("0-63"))
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
	m := twoSockets("0-3,20")
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
		var entry *option.Error
		if sets != nil || !errors.As(err, &entry) || err.Error() != c.want {
			t.Errorf("%v: %v, %v", c.list, sets, err)
		}
	}
}
