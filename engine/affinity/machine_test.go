package affinity

import (
	"io/fs"
	"maps"
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

func noNVML(string, int) (device, bool) { return device{}, false }

func TestLookCPUs(t *testing.T) {
	for _, c := range []struct {
		name       string
		root       fs.FS
		configured int
		memory     string // CPUs of the nodes with memory
	}{
		{"two nodes", files(sockets), 8, "0-7"},
		{"memory of one", files(with(sockets, map[string]string{"proc/self/status": "Mems_allowed_list:\t1\n"})), 8, "4-7"},
		{"no word of memory", files(with(sockets, map[string]string{"proc/self/status": "Name:\tx\n"})), 8, "0-7"},
		{"a node of memory", files(with(sockets, map[string]string{"sys/devices/system/node/node1/cpulist": "\n"})), 8, "0-3"},
		{"a node that cannot be read", files(with(sockets, map[string]string{"sys/devices/system/node/node1/cpulist": "?\n"})), 8, "0-3"},
		{"fewer present than allowed", files(map[string]string{"sys/devices/system/cpu/present": "0-1\n"}), 4, ""},
		{"a hole", files(map[string]string{"sys/devices/system/cpu/present": "0-3,16-19\n"}), 20, ""},
		{"no /sys", files(nil), 4, ""},
	} {
		m := look(c.root, Set{0, 3}, NoGPU, nil)
		if m.Configured != c.configured || m.Places[2].String() != c.memory || len(m.Places[0])+len(m.Places[1]) > 0 || m.Allowed.String() != "0,3" {
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
		slot string // "": none
		node string // CPUs of its node
	}{
		{"the first", bare, "", "0000:17:00.0", "0-3"},
		{"the second", bare, "1", "0000:65:00.0", "4-7"},
		{"a node that is not known", bare, "2", "0000:b3:00.0", ""},
		{"one too many", bare, "3", "", ""},
		{"a UUID without a driver", bare, "GPU-1a2b-65", "", ""},
		{"the driver's first", inUse, "", "0000:65:00.0", "4-7"},
		{"a UUID", inUse, "GPU-1a2c-b3", "0000:b3:00.0", ""},
		{"the beginning of a UUID", inUse, "GPU-1a2b", "0000:65:00.0", "4-7"},
		{"the beginning of two", inUse, "GPU-1a2", "", ""},
		{"a part", inUse, "MIG-GPU-1a2b-65/3/0", "0000:65:00.0", "4-7"},
		{"a part that only NVML knows", inUse, "MIG-7777", "", ""},
		{"nonsense", inUse, "first", "", ""},
		{"none at all", files(nil), "", "", ""},
	} {
		d := findGPU(c.root, c.gpu, 8, noNVML)
		m := look(c.root, Set{0}, c.gpu, noNVML)
		if d.slot != c.slot || len(m.Places[0]) > 0 || m.Places[1].String() != c.node {
			t.Errorf("%s: %+v, %+v", c.name, d, m)
		}
	}
}

func TestLookWithNVML(t *testing.T) {
	for _, c := range []struct {
		name      string
		answer    device
		cpus, own string // recommended, of the slot's node
	}{
		{"all known", device{"0000:65:00.0", Set{4, 5}}, "4-5", "4-7"},
		{"no recommendation", device{slot: "0000:65:00.0"}, "", "4-7"},
		{"a slot that /sys hides", device{"0000:99:00.0", Set{4}}, "4", ""},
		{"no slot", device{cpus: Set{4}}, "4", ""},
		// What NVML does not show must not be taken from the kernel.
		{"no such device", device{}, "", ""},
	} {
		m := look(files(sockets), Set{0}, "1", func(gpu string, cpus int) (device, bool) {
			if gpu != "1" || cpus != 8 {
				t.Errorf("asked for %q of %d CPUs", gpu, cpus)
			}
			return c.answer, true
		})
		if m.Places[0].String() != c.cpus || m.Places[1].String() != c.own {
			t.Errorf("%s: %+v", c.name, m)
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
