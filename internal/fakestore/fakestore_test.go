package fakestore

import (
	"encoding/xml"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Pages of a listing with a delimiter have each file and each folder once, in order.
func TestListingOfAFolder(t *testing.T) {
	dir := t.TempDir()
	for _, key := range []string{"p/a/1", "p/a/2", "p/a/3", "p/b", "p/c/d/1", "p/e", "q"} {
		path := filepath.Join(dir, "bucket", key)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(key), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := Server{Dir: dir, PerPage: 1}
	var got []string
	for token := ""; ; {
		answer := httptest.NewRecorder()
		query := url.Values{"list-type": {"2"}, "prefix": {"p/"}, "delimiter": {"/"}, "continuation-token": {token}}
		s.ServeHTTP(answer, httptest.NewRequest("GET", "/bucket?"+query.Encode(), nil))
		var page listing
		if err := xml.Unmarshal(answer.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		for _, f := range page.Folders {
			got = append(got, f.Prefix)
		}
		for _, e := range page.Contents {
			got = append(got, e.Key)
		}
		if token = page.Next; token == "" || len(got) > 10 {
			break
		}
	}
	if want := []string{"p/a/", "p/b", "p/c/", "p/e"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, not %q", got, want)
	}
}
