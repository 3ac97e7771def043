package affinity

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// NoGPU, as a device, means that no GPU is looked for and no driver opened.
const NoGPU = "none"

// A GPU is the device that the workers feed.
type GPU struct {
	Name string // "NVIDIA A100-SXM4-40GB", "" if NVML does not tell
	UUID string // "GPU-...", likewise
	PCI  string // the slot as in /sys, "0000:65:00.0"; "" if unknown
	Node int    // the slot's NUMA node; -1 if unknown
	CPUs Set    // NVML's recommendation; empty if it has none
}

// nvmlQuestion asks NVML for a device on a machine with the given number of CPUs. It does not
// set Node. An error wraps errNoNVML if NVML cannot answer at all.
type nvmlQuestion func(gpu string, cpus int) (*GPU, error)

// errNoNVML means that NVML is unavailable; errors that wrap it say why.
var errNoNVML = errors.New("no NVML")

// FirstVisible returns the first device in list, the value of a CUDA_VISIBLE_DEVICES that is
// set, in the form that [ThisMachine] takes; [NoGPU] if the list shows none. An index is in the
// driver's order, as for CUDA under CUDA_DEVICE_ORDER=PCI_BUS_ID: by default CUDA puts the
// fastest device first, which is the same if all are alike.
func FirstVisible(list string) string {
	first, _, _ := strings.Cut(list, ",")
	first = strings.Trim(first, blanks)
	if _, isIndex := number(first); isIndex || isUUID(first) {
		return first
	}
	return NoGPU
}

func isUUID(gpu string) bool {
	return strings.HasPrefix(gpu, "GPU-") || strings.HasPrefix(gpu, "MIG-")
}

// index parses a device number; "" is device 0.
func index(gpu string) (int, bool) {
	if gpu == "" {
		return 0, true
	}
	return number(gpu)
}

// match finds the one device whose UUID begins with want; -1 if there is none, or more than one.
// want can also be a part of a device in the older form MIG-GPU-<uuid>/<instance>/<instance>.
func match(want string, uuids []string) int {
	if part, isPart := strings.CutPrefix(want, "MIG-"); isPart {
		want, _, _ = strings.Cut(part, "/")
	}
	found := -1
	for i, uuid := range uuids {
		switch {
		case uuid == "" || !strings.HasPrefix(uuid, want):
		case found >= 0:
			return -1
		default:
			found = i
		}
	}
	return found
}

// findGPU asks NVML, or the kernel if NVML is unavailable. A device that NVML does not show does
// not count: in a container the kernel shows devices that cannot be used. The returned text says
// what is missing.
func findGPU(root fs.FS, gpu string, cpus int, ask nvmlQuestion) (*GPU, string) {
	var note string
	g, err := ask(gpu, cpus)
	switch {
	case err == nil:
	case errors.Is(err, errNoNVML):
		note = err.Error()
		if g, err = slotOf(root, gpu); err != nil {
			return nil, note + "; " + err.Error()
		}
	default:
		return nil, err.Error()
	}
	g.Node = slotNode(root, g.PCI)
	if note == "" && g.CPUs.Empty() {
		note = "NVML recommends no CPUs"
	}
	return g, note
}

const (
	driverGPUs = "proc/driver/nvidia/gpus" // a directory per device, named by its slot
	pciDevices = "sys/bus/pci/devices"
)

// slotOf finds a device without NVML.
func slotOf(root fs.FS, gpu string) (*GPU, error) {
	slots := slots(root)
	uuids := make([]string, len(slots))
	for i, slot := range slots {
		uuids[i] = slotUUID(root, slot)
	}
	i, isIndex := index(gpu)
	if !isIndex {
		i = match(gpu, uuids)
	}
	if i < 0 || i >= len(slots) {
		return nil, noSuchGPU(gpu, len(slots))
	}
	return &GPU{UUID: uuids[i], PCI: slots[i]}, nil
}

func noSuchGPU(gpu string, of int) error {
	if of == 0 {
		return fmt.Errorf("no GPU")
	}
	if gpu == "" {
		gpu = "0"
	}
	return fmt.Errorf("no GPU %q among %d", gpu, of)
}

// slots returns the slots of NVIDIA's devices, sorted, which is the driver's order.
func slots(root fs.FS) []string {
	if driver := names(root, driverGPUs); len(driver) > 0 {
		return driver
	}
	return slices.DeleteFunc(names(root, pciDevices), func(slot string) bool {
		const nvidia, display = "0x10de", "0x03" // the vendor, and the class of display controllers
		return readLine(root, pciDevices+"/"+slot+"/vendor") != nvidia ||
			!strings.HasPrefix(readLine(root, pciDevices+"/"+slot+"/class"), display)
	})
}

// names lists a directory, sorted; a missing directory is empty.
func names(root fs.FS, dir string) []string {
	entries, _ := fs.ReadDir(root, dir)
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = e.Name()
	}
	slices.Sort(all)
	return all
}

// slotUUID returns the UUID that the driver shows for a slot, "" if it shows none.
func slotUUID(root fs.FS, slot string) string {
	text, _ := fs.ReadFile(root, driverGPUs+"/"+slot+"/information")
	for line := range strings.Lines(string(text)) {
		if uuid, ok := strings.CutPrefix(line, "GPU UUID:"); ok {
			return strings.TrimSpace(uuid)
		}
	}
	return ""
}

// slotNode returns the NUMA node of a slot, -1 if the firmware does not tell.
func slotNode(root fs.FS, slot string) int {
	node, err := strconv.Atoi(readLine(root, pciDevices+"/"+slot+"/numa_node"))
	if err != nil || node < 0 {
		return -1
	}
	return node
}

func readLine(root fs.FS, name string) string {
	text, _ := fs.ReadFile(root, name)
	return strings.TrimSpace(string(text))
}
