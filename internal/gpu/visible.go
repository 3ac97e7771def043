package gpu

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The driver initializes, and keeps open, all GPUs that CUDA_VISIBLE_DEVICES lets the process see.
// A mount uses only one, so it hides the others from itself before the driver starts.
const visibleVariable = "CUDA_VISIBLE_DEVICES"

// given are the GPUs that this process was given, in CUDA's order, by names that are valid in the
// variable; nil: unknown.
var given = sync.OnceValue(func() (names []string) {
	list, set := os.LookupEnv(visibleVariable)
	if !set {
		entries, _ := os.ReadDir("/proc/driver/nvidia/gpus")
		for i := range entries {
			names = append(names, strconv.Itoa(i))
		}
		return names
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" || name[0] == '-' { // later GPUs are not visible
			break
		}
		names = append(names, name)
	}
	return names
})

// Given is how many GPUs this process was given; 0: unknown without the driver.
func Given() int { return len(given()) }

// narrow lets the driver see only the GPU of Find's first call, and returns its number among those
// given. If it is not sure which GPU that is, it does nothing: then the driver sees all, and the
// number is that of the first.
func narrow(which string) (number int) {
	names := given()
	if which != "auto" {
		if number = slices.Index(names, which); strings.Trim(which, "0123456789") == "" {
			number, _ = strconv.Atoi(which)
		}
	}
	if len(names) < 2 || number < 0 || number >= len(names) || os.Setenv(visibleVariable, names[number]) != nil {
		return 0
	}
	return number
}
