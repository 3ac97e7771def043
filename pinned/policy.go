package pinned

import (
	"fmt"
	"strconv"
)

// A Policy says when buffers change their size, after DALI's memory model.
type Policy struct {
	// ShrinkThreshold, in [0,1]: an ordinary host buffer gives memory back if for a while all
	// requests were smaller than this share of its size. 0 means never.
	ShrinkThreshold float64
	// HostGrowth, in [1,4]: a host buffer that must grow becomes at least this many times as large
	// as it was. It also applies to page-locked batch buffers, which are host memory.
	HostGrowth float64
	// DeviceGrowth, in [1,4], is the same for memory on a GPU.
	DeviceGrowth float64
}

// DefaultPolicy shrinks below nine tenths and grows without a margin.
func DefaultPolicy() Policy {
	return Policy{ShrinkThreshold: 0.9, HostGrowth: 1, DeviceGrowth: 1}
}

// Read makes it the default policy, changed by the environment variables that getenv finds; an
// empty variable counts as not set. The error names the variable, the rule and the value.
func (p *Policy) Read(getenv func(name string) string) error {
	read := DefaultPolicy()
	for _, v := range []struct {
		name   string
		lo, hi float64
		into   []*float64
	}{
		{"BATCHFS_HOST_BUFFER_SHRINK_THRESHOLD", 0, 1, []*float64{&read.ShrinkThreshold}},
		{"BATCHFS_BUFFER_GROWTH_FACTOR", 1, 4, []*float64{&read.HostGrowth, &read.DeviceGrowth}},
		// As DALI's variables, these override the one before.
		{"BATCHFS_HOST_BUFFER_GROWTH_FACTOR", 1, 4, []*float64{&read.HostGrowth}},
		{"BATCHFS_DEVICE_BUFFER_GROWTH_FACTOR", 1, 4, []*float64{&read.DeviceGrowth}},
	} {
		text := getenv(v.name)
		if text == "" {
			continue
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x >= v.lo && x <= v.hi) { // also refuses NaN
			return fmt.Errorf("%s must be a number from %g to %g, not %q", v.name, v.lo, v.hi, text)
		}
		for _, into := range v.into {
			*into = x
		}
	}
	*p = read
	return nil
}
