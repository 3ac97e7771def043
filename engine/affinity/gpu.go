package affinity

import (
	"io/fs"
	"slices"
	"strings"
)

// NoGPU, as a device, means that no GPU is looked for and no driver opened.
const NoGPU = "none"

// A device is the GPU that the workers feed, the zero value if there is none.
type device struct {
	slot string // PCI slot as in /sys, "0000:65:00.0"; "" if unknown
	cpus Set    // NVML's recommendation; empty if it has none
}

// nvmlQuestion asks NVML for a GPU on a machine with the given number of CPUs. works is false if
// NVML cannot answer at all.
type nvmlQuestion func(gpu string, cpus int) (d device, works bool)

// FirstVisible returns the first device in list, the value of a CUDA_VISIBLE_DEVICES that is
// set, in the form that [ThisMachine] takes; [NoGPU] if the list shows none. An index is taken in
// the driver's order; CUDA puts the fastest device first, which is the same if all are alike.
func FirstVisible(list string) string {
	first, _, _ := strings.Cut(list, ",")
	first = strings.Trim(first, blanks)
	_, isIndex := number(first)
	if isIndex || strings.HasPrefix(first, "GPU-") || strings.HasPrefix(first, "MIG-") {
		return first
	}
	return NoGPU
}

// choose returns the position of the device that gpu names, -1 if there is none: an index, "" for
// 0, or the beginning of exactly one device's UUID. gpu can also be a part of a device in the
// older form MIG-GPU-<uuid>/<instance>/<instance>.
func choose(gpu string, uuids []string) int {
	if i, isIndex := number(gpu); gpu == "" || isIndex && i < len(uuids) {
		return min(i, len(uuids)-1)
	}
	if part, isPart := strings.CutPrefix(gpu, "MIG-"); isPart {
		gpu, _, _ = strings.Cut(part, "/")
	}
	isIt := func(uuid string) bool { return uuid != "" && strings.HasPrefix(uuid, gpu) }
	i := slices.IndexFunc(uuids, isIt)
	if i >= 0 && slices.ContainsFunc(uuids[i+1:], isIt) {
		return -1
	}
	return i
}

// findGPU asks NVML, or the kernel if NVML is unavailable. A device that NVML does not show does
// not count: in a container the kernel shows devices that cannot be used.
func findGPU(root fs.FS, gpu string, cpus int, ask nvmlQuestion) device {
	if d, works := ask(gpu, cpus); works {
		return d
	}
	slots := slots(root)
	uuids := make([]string, len(slots))
	for i, slot := range slots {
		uuids[i] = lineAfter(root, driverGPUs+"/"+slot+"/information", "GPU UUID:")
	}
	if i := choose(gpu, uuids); i >= 0 {
		return device{slot: slots[i]}
	}
	return device{}
}

const (
	driverGPUs = "proc/driver/nvidia/gpus" // a directory per device, named by its slot
	pciDevices = "sys/bus/pci/devices"
)

// slots returns the slots of NVIDIA's devices in the driver's order, which is sorted.
func slots(root fs.FS) (all []string) {
	entries, _ := fs.ReadDir(root, driverGPUs)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	if len(all) > 0 {
		return all
	}
	entries, _ = fs.ReadDir(root, pciDevices)
	for _, e := range entries {
		const nvidia, display = "0x10de", "0x03" // the vendor, and the class of display controllers
		dir := pciDevices + "/" + e.Name()
		if lineAfter(root, dir+"/vendor", "") == nvidia && strings.HasPrefix(lineAfter(root, dir+"/class", ""), display) {
			all = append(all, e.Name())
		}
	}
	return all
}
