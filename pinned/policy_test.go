package pinned

import (
	"strings"
	"testing"
)

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

func TestParsePolicy(t *testing.T) {
	const shrink, common = "BATCHFS_HOST_BUFFER_SHRINK_THRESHOLD", "BATCHFS_BUFFER_GROWTH_FACTOR"
	const host, device = "BATCHFS_HOST_BUFFER_GROWTH_FACTOR", "BATCHFS_DEVICE_BUFFER_GROWTH_FACTOR"
	for _, c := range []struct {
		env  map[string]string
		want Policy
	}{
		{nil, Policy{0.9, 1, 1}},
		{map[string]string{shrink: "", common: ""}, Policy{0.9, 1, 1}},
		{map[string]string{shrink: "0"}, Policy{0, 1, 1}},
		{map[string]string{shrink: "1"}, Policy{1, 1, 1}},
		{map[string]string{shrink: ".5", common: "1.25"}, Policy{0.5, 1.25, 1.25}},
		{map[string]string{common: "4"}, Policy{0.9, 4, 4}},
		{map[string]string{host: "2"}, Policy{0.9, 2, 1}},
		{map[string]string{common: "3", host: "1"}, Policy{0.9, 1, 3}},
		{map[string]string{common: "3", device: "1.5"}, Policy{0.9, 3, 1.5}},
	} {
		if got, err := ParsePolicy(lookup(c.env)); err != nil || got != c.want {
			t.Errorf("%v: %+v, %v; want %+v", c.env, got, err, c.want)
		}
	}
	if DefaultPolicy() != (Policy{0.9, 1, 1}) {
		t.Errorf("the default is %+v", DefaultPolicy())
	}
}

func TestBadPoliciesAreRefusedByName(t *testing.T) {
	const shrink = "BATCHFS_HOST_BUFFER_SHRINK_THRESHOLD"
	for _, c := range []struct{ name, value, rule string }{
		{shrink, "-0.1", "from 0 to 1"},
		{shrink, "1.01", "from 0 to 1"},
		{shrink, "NaN", "from 0 to 1"},
		{shrink, "90%", "from 0 to 1"},
		{shrink, " 0.5", "from 0 to 1"},
		{shrink, "0.5abc", "from 0 to 1"},
		{"BATCHFS_BUFFER_GROWTH_FACTOR", "0.99", "from 1 to 4"},
		{"BATCHFS_BUFFER_GROWTH_FACTOR", "4.1", "from 1 to 4"},
		{"BATCHFS_HOST_BUFFER_GROWTH_FACTOR", "Inf", "from 1 to 4"},
		{"BATCHFS_DEVICE_BUFFER_GROWTH_FACTOR", "0", "from 1 to 4"},
		{"BATCHFS_HOST_BUFFER_GROWTH_FACTOR", "big", "from 1 to 4"},
	} {
		env := map[string]string{"BATCHFS_HOST_BUFFER_GROWTH_FACTOR": "1"} // which overrides one, and hides nothing
		env[c.name] = c.value
		_, err := ParsePolicy(lookup(env))
		if err == nil {
			t.Errorf("%s=%q was taken", c.name, c.value)
			continue
		}
		for _, part := range []string{c.name, c.rule, `"` + c.value + `"`} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s=%q: %q does not say %q", c.name, c.value, err, part)
			}
		}
	}
}
