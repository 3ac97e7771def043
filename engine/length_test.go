package engine

import (
	"encoding/json"
	"testing"
)

// TestJSONLength: the sizes of documents follow from how long paths are as JSON.
func TestJSONLength(t *testing.T) {
	for _, s := range []string{"", "a/b c~.jpg", `a"b`, `a\b`, "a<b", "a>b", "a&b", "a\tb", "a\x7fb", "größe", "a\xffb", "\u2028"} {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := jsonLength(s); got != len(text) {
			t.Errorf("%q is said to be %d bytes long as JSON, and is %d", s, got, len(text))
		}
	}
}
