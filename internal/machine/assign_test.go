package machine

import (
	"errors"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/internal/option"
)

// twoSockets is a machine of 2 nodes with 16 cores of two threads each, whose GPU is next to the
// second.
func twoSockets(allowed string) Processors {
	return Processors{Allowed: cpus(allowed), Near: cpus("16-31,48-63").and(cpus(allowed))}
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
		sets, err := assign(c.list, c.workers, twoSockets("0-63"))
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
		{[]int{64}, `entry 1 must be one of the CPUs this process may use, 0-3,20, not "64"`},
		{[]int{0, -1}, `entry 2 must be one of the CPUs this process may use, 0-3,20, not "-1"`},
		{[]int{0, 1, 4}, `entry 3 must be one of the CPUs this process may use, 0-3,20, not "4"`},
		{[]int{0, 1, 2, 3, 21, 99}, `entry 5 must be one of the CPUs this process may use, 0-3,20, not "21"`},
	} {
		sets, err := assign(c.list, 2, m) // including entries past the last worker
		var entry *option.Error
		if sets != nil || !errors.As(err, &entry) || err.Error() != c.want {
			t.Errorf("%v: %v, %v", c.list, sets, err)
		}
	}
}
