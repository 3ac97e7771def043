package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitOptions(t *testing.T) {
	for in, want := range map[string][]string{
		"":                        {""},
		"a":                       {"a"},
		"a,b=c":                   {"a", "b=c"},
		`list=nhwc\,json,b`:       {"list=nhwc,json", "b"},
		`list="nhwc,json",b`:      {"list=nhwc,json", "b"},
		`log-file=/var/log/a\\b`:  {`log-file=/var/log/a\b`},
		"a,,b":                    {"a", "", "b"},
		`comment="unclosed,quote`: {"comment=unclosed,quote"},
	} {
		if diff := cmp.Diff(want, splitOptions(in)); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
}

func TestExpandOptionsIgnores(t *testing.T) {
	const all = "defaults,rw,ro,_netdev,user,users,user=alice,noauto,auto,nofail,nosuid,nodev,noexec,dev,suid,exec,relatime," +
		"x-systemd.automount,x-gvfs-show,X-mount.mkdir,comment=photos,default_permissions"
	flags, err := expandOptions(testWords, all, false)
	if err != nil || len(flags) > 0 {
		t.Errorf("got %q, %v", flags, err)
	}
}

func TestExpandOptionsSpelling(t *testing.T) {
	words := vocabulary{"allow-other": boolFlag, "batch-size": valueFlag}
	flags, err := expandOptions(words, "allow_other,batch_size=64,batch-size=32,allow_other=false", false)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(flags, " "), "--allow-other --batch-size=64 --batch-size=32 --allow-other=false"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestExpandOptionsComma: what looks like an option may be the rest of a value.
func TestExpandOptionsComma(t *testing.T) {
	words := vocabulary{"mean": valueFlag, "shuffle": boolFlag}
	for list, want := range map[string]string{
		"mean=1,2,3":      `a comma within a value is written with a backslash, as in -o 'mean=1\,2'`,
		`mean=1\,2,3`:     `a comma within a value is written with a backslash, as in -o 'mean=1\,2\,3'`,
		`mean="1,2",3`:    `a comma within a value is written with a backslash, as in -o 'mean=1\,2\,3'`,
		"shuffle,nothing": "",
		"mean=1,shufle":   "did you mean: -o shuffle",
		"mean=1,other=2":  "",
	} {
		_, err := expandOptions(words, list, false)
		if exitStatus(err) != statusUsage || hintOf(err) != want {
			t.Errorf("%s: %v, and the hint %q, want %q", list, err, hintOf(err), want)
		}
	}
	if _, err := expandOptions(words, `mean=1\,2\,3,shuffle`, false); err != nil {
		t.Error(err)
	}
}

func TestMountHelper(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     string // the equivalent command line
		fake     bool
	}{
		{"from fstab", "mount.batchfs /data /mnt -o rw,shuffle,seed=7", "mount --daemon --shuffle --seed=7 -- /data /mnt", false},
		{"options first", "/sbin/mount.fuse.batchfs -o json /data /mnt", "mount --daemon --json -- /data /mnt", false},
		{"bundled", "mount.batchfs /data /mnt -nvo shuffle", "mount --daemon --shuffle -- /data /mnt", false},
		{"glued", "mount.batchfs /data /mnt -oshuffle -t fuse.batchfs -N 7", "mount --daemon --shuffle -- /data /mnt", false},
		{"twice", "mount.batchfs /data /mnt -o shuffle -o seed=1", "mount --daemon --shuffle --seed=1 -- /data /mnt", false},
		{"sloppy", "mount.batchfs /data /mnt -s -o unheard_of,seed=1", "mount --daemon --seed=1 -- /data /mnt", false},
		{"fake", "mount.batchfs /data /mnt -f", "mount --daemon -- /data /mnt", true},
		{"by mount.fuse", "batchfs /data /mnt -o ro,shuffle", "mount --daemon --shuffle -- /data /mnt", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := strings.Fields(test.in)
			if !asMountHelper(args) {
				t.Fatal("is not recognised")
			}
			call, err := parseHelperCall(args[1:])
			if err != nil {
				t.Fatal(err)
			}
			line, err := call.mountLine(testWords)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(line.words(), " "); got != test.want || call.fake != test.fake {
				t.Errorf("got %q fake %v, want %q fake %v", got, call.fake, test.want, test.fake)
			}
		})
	}
}

func TestMountHelperRefuses(t *testing.T) {
	for in, message := range map[string]string{
		"/data":                       "mount.batchfs takes a dataset and a mountpoint, but got 1 argument",
		"/data /mnt /more":            "mount.batchfs takes a dataset and a mountpoint, but got 3 arguments",
		"/data /mnt -o":               "-o needs a value",
		"/data /mnt -x":               "mount.batchfs knows no -x",
		"/data /mnt -o unheard_of=on": "-o unheard_of is no option of a batchfs mount",
	} {
		call, err := parseHelperCall(strings.Fields(in))
		if err == nil {
			_, err = call.mountLine(testWords)
		}
		if err == nil || err.Error() != message || exitStatus(err) != statusUsage {
			t.Errorf("%q: got %v, want %q", in, err, message)
		}
	}
	for _, not := range []string{"batchfs", "batchfs mount", "batchfs mount /a /b", "batchfs /only", "batchfs /data index"} {
		if asMountHelper(strings.Fields(not)) {
			t.Errorf("%q is taken for a call by mount(8)", not)
		}
	}
}
