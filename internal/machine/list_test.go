package machine

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/option"
)

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		list     string
		position int
		value    string
	}{
		{",", 1, ""},
		{"3,,5", 2, ""},
		{"3,5,", 3, ""},
		{" , 1", 1, ""},
		{"0x10", 1, "0x10"},
		{"1,ff", 2, "ff"},
		{"0,1,2-3", 3, "2-3"},
		{"0-3", 1, "0-3"},
		{"5abc", 1, "5abc"},
		{"0,-1", 2, "-1"},
		{"+1", 1, "+1"},
		{"1_0", 1, "1_0"},
		{"1.0", 1, "1.0"},
		{"1e1", 1, "1e1"},
		{"1 2", 1, "1 2"},
		{"1;2", 1, "1;2"},
		{"0,\n1", 2, "\n1"},
		{"0,٣", 2, "٣"},
		{"0,65536", 2, "65536"},
		{"18446744073709551616", 1, "18446744073709551616"},
		{"all", 1, "all"},
	} {
		got, err := parse(c.list)
		want := fmt.Sprintf(`entry %d must be a decimal CPU number, as in "3,5,6,10", not a range or mask, not %q`, c.position, c.value)
		var entry *option.Error
		if got != nil || !errors.As(err, &entry) || err.Error() != want {
			t.Errorf("%q: %v, %v", c.list, got, err)
		}
	}
}

// Parse accepts exactly what this expression and strconv accept, entry by entry; an error is
// about the first bad entry.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", " \t", "0", "3,5,6,10", " 3 ,\t5,6 , 10 ", "1,1,0,1", "007", "65535",
		"0x10", "1,,2", "1-3", "99999999999999999999", "65535,65536", ",",
	} {
		f.Add(seed)
	}
	good := regexp.MustCompile(`^[ \t]*0*[0-9]{1,5}[ \t]*$`)
	f.Fuzz(func(t *testing.T, list string) {
		cpus, err := parse(list)
		if strings.Trim(list, " \t") == "" {
			if cpus != nil || err != nil {
				t.Fatalf("%q: %v, %v", list, cpus, err)
			}
			return
		}
		var want []int
		position := 0
		for i, entry := range strings.Split(list, ",") {
			n, convErr := strconv.Atoi(strings.Trim(entry, " \t"))
			if !good.MatchString(entry) || convErr != nil || n >= maxCPUs {
				position = i + 1
				break
			}
			want = append(want, n)
		}
		if position == 0 {
			if err != nil || !slices.Equal(cpus, want) {
				t.Fatalf("%q: %v, %v", list, cpus, err)
			}
			return
		}
		var entry *option.Error
		if !errors.As(err, &entry) || entry.Field != fmt.Sprint("entry ", position) || cpus != nil {
			t.Fatalf("%q: %v, %v, not entry %d", list, cpus, err, position)
		}
	})
}
