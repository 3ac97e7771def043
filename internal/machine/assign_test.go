package machine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// TestPlaceRefuses: a list is decimal numbers of CPUs that this process may use, separated by
// commas, and all of it is checked. Blanks around numbers are ignored. Any other text is refused.
func TestPlaceRefuses(t *testing.T) {
	m := thisMachine(t)
	one, none := m.Allowed[0], m.Allowed[len(m.Allowed)-1]+1
	good := fmt.Sprintf(" %d ,\t00%d", one, one)
	for list, want := range map[string]int{ // the entry that is wrong; 0: none
		"": 0, " \t": 0, good: 0, ",": 1, good + ",,5": 3, good + ",": 3, " , 1": 1, "0x10": 1, good + ",ff": 3, good + ",2-3": 3, "5abc": 1,
		"0,-1": 2, "+1": 1, "1_0": 1, "1.0": 1, "1e1": 1, "1 2": 1, "1;2": 1, "0,\n1": 2, "0,٣": 2, "0,65536": 2, "18446744073709551616": 1, "all": 1,
		fmt.Sprintf("%d,%d", one, none): 2, fmt.Sprintf("%s,%d,65535", good, none): 3,
	} {
		sets, _, err := Place(list, 1, "", NoGPU)
		if want == 0 {
			if err != nil || list == good != slices.EqualFunc(sets, []CPUs{{one}}, slices.Equal) {
				t.Errorf("%q: %v, %v", list, sets, err)
			}
			continue
		}
		var entry *option.Error
		if sets != nil || !errors.As(err, &entry) || entry.Field != fmt.Sprintf("entry %d", want) || entry.Rule == "" ||
			entry.Value != strconv.Quote(strings.Trim(strings.Split(list, ",")[want-1], " \t")) {
			t.Errorf("%q: %v, %v", list, sets, err)
		}
	}
}
