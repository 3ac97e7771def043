package pinned

import (
	"fmt"
	"strconv"
)

// A Policy says when buffers change their size, after DALI's memory model.
type Policy struct {
	// ShrinkThreshold, in [0,1]: an ordinary host buffer gives memory back when
	// what is asked of it is less than this share of what it holds, and has been for
	// a while. 0: never.
	ShrinkThreshold float64
	// HostGrowth, in [1,4]: a host buffer that has to grow becomes at least this
	// many times as large as it was. It holds for page-locked batch buffers, too,
	// which are memory of the host.
	HostGrowth float64
	// DeviceGrowth, in [1,4], is the same for buffers on a GPU.
	DeviceGrowth float64
}

// DefaultPolicy shrinks below nine tenths and grows without a margin.
func DefaultPolicy() Policy {
	return Policy{ShrinkThreshold: 0.9, HostGrowth: 1, DeviceGrowth: 1}
}

// The environment variables that make a Policy.
const (
	shrinkVariable       = "BATCHFS_HOST_BUFFER_SHRINK_THRESHOLD"
	growthVariable       = "BATCHFS_BUFFER_GROWTH_FACTOR"
	hostGrowthVariable   = "BATCHFS_HOST_BUFFER_GROWTH_FACTOR"
	deviceGrowthVariable = "BATCHFS_DEVICE_BUFFER_GROWTH_FACTOR"
)

// ParsePolicy makes the policy that the environment asks for: the default, but for
// the variables that lookup (os.LookupEnv, say) knows. A growth factor of the host
// or the device alone goes before the common one. A variable that is set to
// nothing counts as not set. The error names the variable, the rule and the value.
func ParsePolicy(lookup func(string) (string, bool)) (Policy, error) {
	p := DefaultPolicy()
	for _, v := range []struct {
		name   string
		lo, hi float64
		into   []*float64
	}{
		{shrinkVariable, 0, 1, []*float64{&p.ShrinkThreshold}},
		{growthVariable, 1, 4, []*float64{&p.HostGrowth, &p.DeviceGrowth}}, // before the particular ones
		{hostGrowthVariable, 1, 4, []*float64{&p.HostGrowth}},
		{deviceGrowthVariable, 1, 4, []*float64{&p.DeviceGrowth}},
	} {
		text, ok := lookup(v.name)
		if !ok || text == "" {
			continue
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x >= v.lo && x <= v.hi) { // NaN is neither
			return Policy{}, fmt.Errorf("%s must be a number from %g to %g, not %q", v.name, v.lo, v.hi, text)
		}
		for _, field := range v.into {
			*field = x
		}
	}
	return p, nil
}
