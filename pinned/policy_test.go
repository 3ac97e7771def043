package pinned

import (
	"strings"
	"testing"
)

// TestPolicyRead: what the variables say, and that a wrong one is refused with its name, the rule
// and the value.
func TestPolicyRead(t *testing.T) {
	const shrink, common = "BATCHFS_HOST_BUFFER_SHRINK_THRESHOLD", "BATCHFS_BUFFER_GROWTH_FACTOR"
	const host, device = "BATCHFS_HOST_BUFFER_GROWTH_FACTOR", "BATCHFS_DEVICE_BUFFER_GROWTH_FACTOR"
	for _, c := range []struct {
		env  map[string]string
		want Policy
		bad  string // the variable that is refused, and the rule
	}{
		{nil, Policy{0.9, 1, 1}, ""},
		{map[string]string{shrink: "", common: ""}, Policy{0.9, 1, 1}, ""},
		{map[string]string{shrink: "0"}, Policy{0, 1, 1}, ""},
		{map[string]string{shrink: "1"}, Policy{1, 1, 1}, ""},
		{map[string]string{shrink: ".5", common: "1.25"}, Policy{0.5, 1.25, 1.25}, ""},
		{map[string]string{common: "4"}, Policy{0.9, 4, 4}, ""},
		{map[string]string{host: "2"}, Policy{0.9, 2, 1}, ""},
		{map[string]string{common: "3", host: "1"}, Policy{0.9, 1, 3}, ""},
		{map[string]string{common: "3", device: "1.5"}, Policy{0.9, 3, 1.5}, ""},
		{map[string]string{shrink: "-0.1"}, Policy{}, shrink + " must be a number from 0 to 1"},
		{map[string]string{shrink: "1.01"}, Policy{}, shrink + " must be a number from 0 to 1"},
		{map[string]string{shrink: "NaN"}, Policy{}, shrink + " must be a number from 0 to 1"},
		{map[string]string{shrink: " 0.5"}, Policy{}, shrink + " must be a number from 0 to 1"},
		{map[string]string{common: "0.99", host: "1"}, Policy{}, common + " must be a number from 1 to 4"},
		{map[string]string{common: "4.1"}, Policy{}, common + " must be a number from 1 to 4"},
		{map[string]string{host: "Inf"}, Policy{}, host + " must be a number from 1 to 4"},
		{map[string]string{device: "0", host: "1"}, Policy{}, device + " must be a number from 1 to 4"},
		{map[string]string{host: "90%"}, Policy{}, host + " must be a number from 1 to 4"},
	} {
		var got Policy
		err := got.Read(func(name string) string { return c.env[name] })
		name, _, _ := strings.Cut(c.bad, " ")
		if c.bad == "" && err != nil || c.bad != "" && (err == nil || err.Error() != c.bad+`, not "`+c.env[name]+`"`) || got != c.want {
			t.Errorf("%v: %+v, %v; want %+v", c.env, got, err, c.want)
		}
	}
}
