package affinity

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"testing"
	"testing/fstest"
)

// files makes a file system from names and contents.
func files(contents map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range contents {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func with(contents, more map[string]string) map[string]string {
	all := maps.Clone(contents)
	maps.Copy(all, more)
	return all
}

var sockets = map[string]string{
	"proc/self/status":                           "Name:\tx\nMems_allowed:\t3\nMems_allowed_list:\t0-1\n",
	"sys/devices/system/cpu/present":             "0-7\n",
	"sys/devices/system/node/online":             "0-1\n",
	"sys/devices/system/node/node0/cpulist":      "0-3\n",
	"sys/devices/system/node/node1/cpulist":      "4-7\n",
	"sys/bus/pci/devices/0000:00:1f.0/vendor":    "0x8086\n",
	"sys/bus/pci/devices/0000:00:1f.0/class":     "0x030000\n", // another vendor's display
	"sys/bus/pci/devices/0000:17:00.0/vendor":    "0x10de\n",
	"sys/bus/pci/devices/0000:17:00.0/class":     "0x030200\n",
	"sys/bus/pci/devices/0000:17:00.0/numa_node": "0\n",
	"sys/bus/pci/devices/0000:17:00.1/vendor":    "0x10de\n",
	"sys/bus/pci/devices/0000:17:00.1/class":     "0x040300\n", // its sound
	"sys/bus/pci/devices/0000:65:00.0/vendor":    "0x10de\n",
	"sys/bus/pci/devices/0000:65:00.0/class":     "0x030000\n",
	"sys/bus/pci/devices/0000:65:00.0/numa_node": "1\n",
	"sys/bus/pci/devices/0000:b3:00.0/vendor":    "0x10de\n",
	"sys/bus/pci/devices/0000:b3:00.0/class":     "0x030200\n",
	"sys/bus/pci/devices/0000:b3:00.0/numa_node": "-1\n",
}

// driver is what the driver shows in a container that has two of the three devices.
var driver = map[string]string{
	"proc/driver/nvidia/gpus/0000:65:00.0/information": "Model: \t\t A\nGPU UUID: \t GPU-1a2b-65\nBus Type: \t PCIe\n",
	"proc/driver/nvidia/gpus/0000:b3:00.0/information": "Model: \t\t A\nGPU UUID: \t GPU-1a2c-b3\n",
}

func noNVML(string, int) (*GPU, error) { return nil, fmt.Errorf("%w here", errNoNVML) }

func TestLookCPUs(t *testing.T) {
	for _, c := range []struct {
		name       string
		root       fs.FS
		configured int
		nodes      string
	}{
		{"two nodes", files(sockets), 8, "[{0 0-3 true} {1 4-7 true}]"},
		{"memory of one", files(with(sockets, map[string]string{"proc/self/status": "Mems_allowed_list:\t1\n"})), 8, "[{0 0-3 false} {1 4-7 true}]"},
		{"no word of memory", files(with(sockets, map[string]string{"proc/self/status": "Name:\tx\n"})), 8, "[{0 0-3 true} {1 4-7 true}]"},
		{"a node of memory", files(with(sockets, map[string]string{"sys/devices/system/node/node1/cpulist": "\n"})), 8, "[{0 0-3 true} {1  true}]"},
		{"a node that cannot be read", files(with(sockets, map[string]string{"sys/devices/system/node/node1/cpulist": "?\n"})), 8, "[{0 0-3 true}]"},
		{"fewer present than allowed", files(map[string]string{"sys/devices/system/cpu/present": "0-1\n"}), 4, "[]"},
		{"a hole", files(map[string]string{"sys/devices/system/cpu/present": "0-3,16-19\n"}), 20, "[]"},
		{"no /sys", files(nil), 4, "[]"},
	} {
		m := look(c.root, Of(0, 3), NoGPU, nil)
		if m.Configured != c.configured || fmt.Sprint(m.Nodes) != c.nodes || m.GPU != nil || m.Note != "" || m.Allowed.String() != "0,3" {
			t.Errorf("%s: %+v", c.name, m)
		}
	}
}

func TestLookWithoutNVML(t *testing.T) {
	bare, inUse := files(sockets), files(with(sockets, driver))
	for _, c := range []struct {
		name string
		root fs.FS
		gpu  string
		want *GPU
		note string
	}{
		{"the first", bare, "", &GPU{PCI: "0000:17:00.0", Node: 0}, "no NVML here"},
		{"the second", bare, "1", &GPU{PCI: "0000:65:00.0", Node: 1}, "no NVML here"},
		{"a node that is not known", bare, "2", &GPU{PCI: "0000:b3:00.0", Node: -1}, "no NVML here"},
		{"one too many", bare, "3", nil, `no NVML here; no GPU "3" among 3`},
		{"a UUID without a driver", bare, "GPU-1a2b-65", nil, `no NVML here; no GPU "GPU-1a2b-65" among 3`},
		{"the driver's first", inUse, "", &GPU{UUID: "GPU-1a2b-65", PCI: "0000:65:00.0", Node: 1}, "no NVML here"},
		{"a UUID", inUse, "GPU-1a2c-b3", &GPU{UUID: "GPU-1a2c-b3", PCI: "0000:b3:00.0", Node: -1}, "no NVML here"},
		{"the beginning of a UUID", inUse, "GPU-1a2b", &GPU{UUID: "GPU-1a2b-65", PCI: "0000:65:00.0", Node: 1}, "no NVML here"},
		{"the beginning of two", inUse, "GPU-1a2", nil, `no NVML here; no GPU "GPU-1a2" among 2`},
		{"a part", inUse, "MIG-GPU-1a2b-65/3/0", &GPU{UUID: "GPU-1a2b-65", PCI: "0000:65:00.0", Node: 1}, "no NVML here"},
		{"a part that only NVML knows", inUse, "MIG-7777", nil, `no NVML here; no GPU "MIG-7777" among 2`},
		{"nonsense", inUse, "first", nil, `no NVML here; no GPU "first" among 2`},
		{"none at all", files(nil), "", nil, "no NVML here; no GPU"},
	} {
		m := look(c.root, Of(0), c.gpu, noNVML)
		if !reflect.DeepEqual(m.GPU, c.want) || m.Note != c.note {
			t.Errorf("%s: %+v, %q", c.name, m.GPU, m.Note)
		}
	}
}

func TestLookWithNVML(t *testing.T) {
	answer := func(g GPU, err error) nvmlQuestion {
		return func(gpu string, cpus int) (*GPU, error) {
			if gpu != "1" || cpus != 8 {
				t.Errorf("asked for %q of %d CPUs", gpu, cpus)
			}
			if err != nil {
				return nil, err
			}
			return &g, nil
		}
	}
	for _, c := range []struct {
		name string
		ask  nvmlQuestion
		want *GPU
		note string
	}{
		{"all known", answer(GPU{PCI: "0000:65:00.0", CPUs: Of(4, 5)}, nil), &GPU{PCI: "0000:65:00.0", Node: 1, CPUs: Of(4, 5)}, ""},
		{"no recommendation", answer(GPU{PCI: "0000:65:00.0"}, nil), &GPU{PCI: "0000:65:00.0", Node: 1}, "NVML recommends no CPUs"},
		{"a slot that /sys hides", answer(GPU{PCI: "0000:99:00.0", CPUs: Of(4)}, nil), &GPU{PCI: "0000:99:00.0", Node: -1, CPUs: Of(4)}, ""},
		{"no slot", answer(GPU{CPUs: Of(4)}, nil), &GPU{Node: -1, CPUs: Of(4)}, ""},
		// What NVML does not show must not be taken from the kernel.
		{"no such device", answer(GPU{}, errors.New("GPU 1: no such device")), nil, "GPU 1: no such device"},
	} {
		m := look(files(sockets), Of(0), "1", c.ask)
		if !reflect.DeepEqual(m.GPU, c.want) || m.Note != c.note {
			t.Errorf("%s: %+v, %q", c.name, m.GPU, m.Note)
		}
	}
}

func TestFirstVisible(t *testing.T) {
	for list, want := range map[string]string{
		"0": "0", "2,0": "2", " 3 , 1": "3", "GPU-8932f937,1": "GPU-8932f937", "MIG-GPU-1/2/3": "MIG-GPU-1/2/3",
		"": NoGPU, "-1": NoGPU, "-1,0": NoGPU, ",0": NoGPU, "NoDevFiles": NoGPU, "0x1": NoGPU, "none": NoGPU, "void": NoGPU,
	} {
		if got := FirstVisible(list); got != want {
			t.Errorf("%q: %q, not %q", list, got, want)
		}
	}
}
