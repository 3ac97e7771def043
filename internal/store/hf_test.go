package store

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// hubCommit answers the question for the commit.
func hubCommit(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprintf(w, `{"sha":%q}`, commit)
}

// aHub is Hugging Face, with its requests.
type aHub struct {
	seen []string
	etag string // of the large file
	sign string // of the URL that is valid
}

func (h *aHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.seen = append(h.seen, r.Host+r.URL.RequestURI()+" "+r.Header.Get("Authorization"))
	const resolve = "/datasets/org/d/resolve/" + commit
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/datasets/org/d/revision/"):
		hubCommit(w, r)
	case r.URL.Path == "/api/datasets/org/d/tree/"+commit+"/data" && r.URL.Query().Get("cursor") == "":
		w.Header().Set("Link", `<https://hub/api/x?cursor=next%3D&recursive=true>; rel="next"`)
		_, _ = w.Write([]byte(`[{"type":"directory","oid":"t","size":0,"path":"data/x"},
			{"type":"file","oid":"g","size":300000,"path":"data/z.bin","lfs":{"oid":"sha","size":300000,"pointerSize":1}}]`))
	case r.URL.Path == "/api/datasets/org/d/tree/"+commit+"/data" && r.URL.Query().Get("cursor") == "next=":
		_, _ = w.Write([]byte(`[{"type":"file","oid":"o","size":5,"path":"data/a.txt"},{"type":"file","oid":"o","size":5,"path":"data2"}]`))
	case r.URL.Path == resolve+"/data/z.bin":
		w.Header().Set("X-Linked-Etag", `"`+h.etag+`"`)
		headers302("http://cdn/file?sign="+h.sign)(w, r)
	case r.URL.Path == resolve+"/data/a.txt":
		headers302("/api/cache/a.txt")(w, r)
	case r.URL.Path == "/api/cache/a.txt":
		headers("Etag", `W/"o"`)(w, r)
	case r.Host == "cdn" && r.URL.RawQuery == "sign="+h.sign:
		headers("Etag", `"of the CDN"`)(w, r)
	case r.Host == "cdn":
		w.WriteHeader(http.StatusForbidden)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// TestHub: names, versions and places of files at Hugging Face.
func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &aHub{etag: "sha", sign: "1"}
		s := newWire(t, h.ServeHTTP).open(t, "hf://datasets/org/d@refs/convert/parquet/data/", Options{Endpoint: "http://hub", Token: "secret"})
		if got := s.URL("data/z.bin"); got != "hf://datasets/org/d@refs/convert/parquet/data/z.bin" {
			t.Error(got)
		}
		var list []Object
		if err := s.List(t.Context(), "data/", func(o Object) error { list = append(list, o); return nil }); err != nil {
			t.Fatal(err)
		}
		large := Object{Name: "data/z.bin", Size: 300000, Version: `"sha"`}
		if len(list) != 2 || list[0] != (Object{Name: "data/a.txt", Size: 5, Version: `"o"`}) || list[1] != large {
			t.Errorf("%+v", list)
		}
		if err := s.List(t.Context(), "none/", nil); err != nil {
			t.Errorf("a directory that does not exist: %v", err)
		}
		h.seen = nil
		if o, err := s.Stat(t.Context(), "data/z.bin"); err != nil || o != large {
			t.Errorf("%+v, %v", o, err)
		}
		if o, err := s.Stat(t.Context(), "data/a.txt"); err != nil || o.Version != `"o"` {
			t.Errorf("%+v, %v", o, err)
		}
		readLarge := func() error {
			p := make([]byte, 10)
			_, err := s.ReadAt(t.Context(), large, p, 20)
			if err == nil && string(p) != string(content[20:30]) {
				t.Error("wrong bytes")
			}
			return err
		}
		if err := readLarge(); err != nil {
			t.Error(err)
		}
		h.sign = "2" // the one that is known has expired, before its time
		if err := readLarge(); err != nil {
			t.Error(err)
		}
		time.Sleep(locationLife) // of the bubble
		if err := readLarge(); err != nil {
			t.Error(err)
		}
		const place = "hub/datasets/org/d/resolve/" + commit
		want := []string{
			place + "/data/z.bin Bearer secret", "cdn/file?sign=1 ",
			place + "/data/a.txt Bearer secret", "hub/api/cache/a.txt Bearer secret",
			"cdn/file?sign=1 ",
			"cdn/file?sign=1 ", place + "/data/z.bin Bearer secret", "cdn/file?sign=2 ",
			place + "/data/z.bin Bearer secret", "cdn/file?sign=2 ",
		}
		if got := strings.Join(h.seen, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("requests:\n%s", got)
		}
		time.Sleep(locationLife)
		h.etag = "of another commit"
		if err := readLarge(); !errors.Is(err, ErrChanged) {
			t.Errorf("another commit: %v", err)
		}
	})
}

func TestHubURLs(t *testing.T) {
	for url, want := range map[string]string{
		"datasets/o/d":                         "datasets/o/d||",
		"datasets/o/d/":                        "datasets/o/d||",
		"datasets/o/d@v1/x/y":                  "datasets/o/d|v1|x/y",
		"datasets/o/d@refs/pr/3/x":             "datasets/o/d|refs/pr/3|x",
		"datasets/o/d@refs%2Fpr%2F3/x@y":       "datasets/o/d|refs%2Fpr%2F3|x@y",
		"datasets/o/d/train-{000..255}.tar":    "datasets/o/d||train-{000..255}.tar",
		"datasets/o":                           "",
		"models/o/d":                           "",
		"datasets/o/d@/x":                      "",
		"datasets/user:secret@o/d":             "",
		"datasets/o/d@refs/convert/parquet/*?": "datasets/o/d|refs/convert/parquet|*?",
	} {
		got := ""
		if parts := hubURL.FindStringSubmatch(url); parts != nil {
			got = strings.Join(parts[1:], "|")
		}
		if got != want {
			t.Errorf("%s: %q, not %q", url, got, want)
		}
	}
}
