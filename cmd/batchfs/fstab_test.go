package main

import (
	"io"
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

func TestMountHelper(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     string // the equivalent command line
	}{
		{"from fstab", "mount.batchfs /data /mnt -o rw,shuffle,seed=7", "mount --daemon -o rw,shuffle,seed=7 -- /data /mnt"},
		{"options first", "/sbin/mount.fuse.batchfs -o shuffle /data /mnt", "mount --daemon -o shuffle -- /data /mnt"},
		{"all letters", "mount.batchfs /data /mnt -s -n -v -o shuffle -t fuse.batchfs -N 7", "mount --daemon -o shuffle -- /data /mnt"},
		{"twice", "mount.batchfs /data /mnt -o shuffle -o seed=1", "mount --daemon -o shuffle -o seed=1 -- /data /mnt"},
		{"by mount.fuse", "batchfs /data /mnt -o ro,shuffle", "mount --daemon -o ro,shuffle -- /data /mnt"},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := strings.Fields(test.in)
			if !asMountHelper(args) {
				t.Fatal("is not recognised")
			}
			words, err := mountWords(args[1:])
			if got := strings.Join(words, " "); got != test.want || err != nil {
				t.Errorf("got %q, want %q; %v", got, test.want, err)
			}
			r, err := requested(t, words[1:]...)
			if err != nil || r.dataset != "/data" || r.mountpoint != "/mnt" || !r.daemon {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestMountFake: mount -f does nothing.
func TestMountFake(t *testing.T) {
	if err := run(t.Context(), strings.Fields("mount.batchfs /nowhere/data /nowhere/mnt -f"), io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestMountHelperRefuses(t *testing.T) {
	for in, message := range map[string]string{
		"/data":                       "mount.batchfs takes a dataset and a mountpoint, but got 1 argument",
		"/data /mnt /more":            "mount.batchfs takes a dataset and a mountpoint, but got 3 arguments",
		"/data /mnt -o":               "-o needs a value",
		"/data /mnt -x":               "unknown flag -x",
		"/data /mnt -o unheard_of=on": "unknown option -o unheard_of",
	} {
		words, err := mountWords(strings.Fields(in))
		if err == nil {
			_, err = requested(t, words[1:]...)
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
