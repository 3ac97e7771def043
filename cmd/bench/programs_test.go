package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shell returns a bench whose consumers are shell scripts, and the name of one.
func shell(t *testing.T, script string) (*bench, string) {
	b := &bench{options: options{python: "/bin/sh", peers: t.TempDir(), work: t.TempDir()}}
	if err := os.WriteFile(filepath.Join(b.peers, "script"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return b, "script"
}

func TestConsumerSkipsWhatItHasMadeAhead(t *testing.T) {
	b, script := shell(t, `
		echo '{"what": "a shell", "ahead": 6}'
		while read skip count pause; do
			echo "{\"images\": $((skip * 100 + count)), \"seconds\": $pause}"
		done`)
	c, err := b.consume(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	defer c.stop()
	if c.what != "a shell" {
		t.Errorf("it calls itself %q", c.what)
	}
	c.pause = 2 * time.Second
	for range 2 { // it was stopped in between
		f, err := c.turn(40)
		if err != nil {
			t.Fatal(err)
		}
		if want := (600. + 40) / 2; f[rate] != want || f[pss] == 0 {
			t.Errorf("%v images/s, want %v; %v", f[rate], want, f)
		}
	}
}

func TestConsumerSaysWhyItCannotRun(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"told":       {`echo '{"error": "no module"}'; exit 1`, "no module"},
		"died":       {"echo first >&2; echo second >&2; exit 3", "second"},
		"in silence": {"exit 3", "without an answer"},
		"nonsense":   {"echo hello", "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			b, script := shell(t, c.script)
			_, err := b.consume(t.Context(), script)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestConsumerThatDiesWhileItIsMeasured(t *testing.T) {
	b, script := shell(t, `echo '{"what": "a shell", "ahead": 1}'; read line; echo gone >&2`)
	c, err := b.consume(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	defer c.stop()
	if _, err := c.turn(1); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("error %v, want its last words", err)
	}
}
