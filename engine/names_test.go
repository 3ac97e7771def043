package engine

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// oddNames are class names that file systems allow, with their lines in classes.txt.
var oddNames = []struct{ name, line string }{
	{"\tx", `\tx`},
	{"\"x\"", `"x"`},
	{"a", "a"},
	{"a b <&> é", "a b <&> é"},
	{"b\nc", `b\nc`},
	{"b\\nc", `b\\nc`},
	{"b\r\x01\"", `b\r\u0001\"`},
	{"c\x7f", "c\x7f"},
	{"d\xff", "d\xff"},
	{"d\xff\n", "d\xff\\n"},
}

// TestClassesTxtHasOneLinePerClass: any class name takes one line, and distinct names have
// distinct lines.
func TestClassesTxtHasOneLinePerClass(t *testing.T) {
	dir := t.TempDir()
	for _, c := range oddNames {
		class := filepath.Join(dir, c.name)
		if err := os.Mkdir(class, 0o755); err != nil {
			t.Fatal(err)
		}
		writePPM(t, filepath.Join(class, "1.ppm"), 2, 2, picture(1, 2, 2))
	}
	e := start(t, dir)
	lines := strings.Split(strings.TrimSuffix(string(e.ClassesTxt()), "\n"), "\n")
	if len(lines) != len(oddNames) {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	for k, name := range e.ds.Classes() {
		want := ""
		for _, c := range oddNames {
			if c.name == name {
				want = c.line
			}
		}
		if lines[k] != want {
			t.Errorf("class %d, %q: %q instead of %q", k, name, lines[k], want)
		}
		var back string
		if strings.Contains(want, `\`) && !strings.Contains(name, "\xff") {
			if err := json.Unmarshal([]byte(`"`+lines[k]+`"`), &back); err != nil || back != name {
				t.Errorf("class %d: read as %q, %v", k, back, err)
			}
		}
	}
}

// TestPathsThatAreNotUTF8: such paths stay distinguishable in documents, whose sizes are as
// predicted.
func TestPathsThatAreNotUTF8(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{strings.Repeat("\xfe", 200), strings.Repeat("\xff", 200), strings.Repeat("é", 100), "fine"} {
		writePPM(t, filepath.Join(dir, name+".ppm"), 2, 2, picture(1, 2, 2))
	}
	e := start(t, dir, func(o *Options) { o.BatchSize = 4 })
	doc, err := e.Small(context.Background(), Key{}, layout.JSON)
	if err != nil || int64(len(doc)) != e.Size(Key{}, layout.JSON) {
		t.Fatalf("%d bytes of %d: %v", len(doc), e.Size(Key{}, layout.JSON), err)
	}
	var batch batchDocument
	if err := json.Unmarshal(doc, &batch); err != nil {
		t.Fatal(err)
	}
	for _, s := range batch.Samples {
		path, odd := s.Path, strings.Contains(s.Path, "\ufffd")
		if odd {
			bytes, err := base64.StdEncoding.DecodeString(s.Bytes)
			if err != nil {
				t.Error(err)
			}
			path = string(bytes)
		}
		if path != e.ds.Path(int(s.ID)) || odd != (s.Bytes != "") {
			t.Errorf("%q, %q instead of %q", s.Path, s.Bytes, e.ds.Path(int(s.ID)))
		}
	}
	var log errorLog
	for _, path := range []string{"\xfe", "\xff", "fine"} {
		log.add(errorLine{Path: path}, newLedger(1<<20))
	}
	for k, line := range strings.Split(strings.TrimSpace(string(log.bytes())), "\n") {
		if has := strings.Contains(line, `"path_bytes":"`+[]string{"/g==", "/w==", ""}[k]); has != (k < 2) {
			t.Errorf("errors.jsonl: %s", line)
		}
	}
}
