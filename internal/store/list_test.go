package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lister opens a store whose lists are the given pages, by their tokens.
func lister(t *testing.T, place string, token string, pages map[string]string) (*site, *wire) {
	w := newWire(t, func(w http.ResponseWriter, r *http.Request) {
		page, found := pages[r.URL.Query().Get(token)]
		if !found {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write([]byte(page))
	})
	return w.open(t, place, Options{Endpoint: "http://host", Signature: "sv=1", Anonymous: strings.HasPrefix(place, "gs")}), w
}

func names(s *site, prefix string) (string, error) {
	var names []string
	err := s.List(context.Background(), prefix, func(o Object) error { names = append(names, fmt.Sprint(o)); return nil })
	return strings.Join(names, " "), err
}

// s3List is a page with objects of the given names.
func s3List(next string, names ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>%t</IsTruncated><NextContinuationToken>%s</NextContinuationToken>`, next != "", next)
	for i, name := range names {
		fmt.Fprintf(&b, `<Contents><Key>%s</Key><LastModified>1970-01-01T00:00:01.500Z</LastModified><ETag>&quot;%d&quot;</ETag><Size>%d</Size></Contents>`, name, i, i)
	}
	return b.String() + `</ListBucketResult>`
}

func TestListS3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := map[string]string{
			"":      s3List("p 2+", "a", "b"),
			"p 2+":  s3List("p3"),
			"p3":    s3List("", "b&amp;+%41"),
			"twice": s3List("twice"),
			"x":     s3List("y"),
			"y":     s3List("z"),
			"z":     s3List("x"),
		}
		s, w := lister(t, "gs://bucket/", "continuation-token", pages)
		serve := w.handler
		w.handler = func(w2 http.ResponseWriter, r *http.Request) {
			if w.requests.Load() == 2 { // cut off
				_, _ = w2.Write([]byte(s3List("", "b", "c")[:300]))
				flush(w2)
				abort()
			}
			serve(w2, r)
		}
		second := int64(time.Second)
		want := fmt.Sprint(Object{"a", 0, `"0"`, second}, " ", Object{"b", 1, `"1"`, second}, " ", Object{"b&+%41", 0, `"0"`, second})
		if got, err := names(s, ""); err != nil || got != want {
			t.Errorf("%s, %v", got, err)
		}
		w.handler = serve
		for page, part := range map[string]string{
			s3List("", "b", "a"): `"a" after "b"`,
			s3List("", "a", "a"): `"a" after "a"`,
			s3List("twice"):      "does not end",
			s3List("x"):          "does not end",
			s3List("", "a")[:99]: "not a list",
			"<html>x</html>":     "not a list",
			strings.Replace(s3List("", "a"), "<Size>0", "<Size>-5", 1):                          "-5 bytes",
			strings.Replace(s3List("", "a"), "false", "true", 1):                                "cuts its list off",
			strings.Replace(s3List("", "%zz"), "<Is", "<EncodingType>url</EncodingType><Is", 1): "not escaped",
		} {
			pages[""] = page
			if got, err := names(s, ""); err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %s, %v", page, got, err)
			}
		}
		pages[""] = strings.Replace(s3List("", "a%2B+b"), "<Is", "<EncodingType>url</EncodingType><Is", 1)
		if got, err := names(s, ""); err != nil || !strings.Contains(got, "{a+ b 0") {
			t.Errorf("%s, %v", got, err)
		}
	})
}

// TestListAlong: a list requested in concurrent parts equals the whole list, whether or not the
// marks are still names, and whether or not the store can begin after one.
func TestListAlong(t *testing.T) {
	const parts = 4
	for _, able := range []bool{true, false} {
		all := []string{"d/a", "d/b", "d/b/c", "d/b0", "d/c", "d/d", "d/e", "d/f", "d/g"}
		var missing sync.WaitGroup
		missing.Add(parts)
		w := newWire(t, func(w http.ResponseWriter, r *http.Request) {
			after := r.URL.Query().Get("continuation-token")
			if after == "" {
				missing.Done() // nobody gets an answer before all have asked
				missing.Wait()
				if able {
					after = r.URL.Query().Get("start-after")
				}
			}
			rest := all[sort.SearchStrings(all, after+"\x00"):]
			next := ""
			if len(rest) > 2 {
				rest, next = rest[:2], rest[1]
			}
			_, _ = w.Write([]byte(s3List(next, rest...)))
		})
		s := w.open(t, "gs://bucket/", Options{Endpoint: "http://host", Anonymous: true})
		var got []string
		err := s.ListAlong(t.Context(), "d/", []string{"d/b", "d/bx", "d/e"}, func(o Object) error { got = append(got, o.Name); return nil })
		if err != nil || !slices.Equal(got, all) {
			t.Errorf("%q, %v", got, err)
		}
		missing.Add(parts)
		all = []string{"d/d", "d/c"}
		if err := s.ListAlong(t.Context(), "d/", []string{"d/b", "d/x", "d/y"}, func(Object) error { return nil }); err == nil || !strings.Contains(err.Error(), "not in order") {
			t.Errorf("a list that is not in order: %v", err)
		}
	}
}

// TestListAlongIsEnded: an error of the caller, or of its context, ends it.
func TestListAlongIsEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWire(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("start-after") == "" {
			_, _ = w.Write([]byte(s3List("", "a")))
			return
		}
		<-r.Context().Done()
	})
	s := w.open(t, "gs://bucket/", Options{Endpoint: "http://host", Anonymous: true})
	if err := s.ListAlong(ctx, "", []string{"b"}, func(Object) error { return io.EOF }); err != io.EOF {
		t.Errorf("error %v", err)
	}
	if err := s.ListAlong(ctx, "", []string{"b"}, func(Object) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestListAzure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blob := func(name, more string) string {
			return `<Blob><Name` + name + `</Name><Properties><Content-Length>7</Content-Length><Etag>0x8</Etag><Last-Modified>Thu, 01 Jan 1970 00:00:01 GMT</Last-Modified>` + more + `</Properties></Blob>`
		}
		const begin, end = "\ufeff<?xml version=\"1.0\"?><EnumerationResults><Blobs>", "</EnumerationResults>"
		s, _ := lister(t, "az://c@account/", "marker", map[string]string{
			"":  begin + blob(">d/x", "") + blob(">d", "<ResourceType>directory</ResourceType>") + `</Blobs><NextMarker>m</NextMarker>` + end,
			"m": begin + blob(` Encoded="true">d.%EF%BF%BE`, "") + `</Blobs><NextMarker/>` + end,
		})
		want := fmt.Sprint(Object{"d.\ufffe", 7, `"0x8"`, int64(time.Second)}, " ", Object{"d/x", 7, `"0x8"`, int64(time.Second)})
		if got, err := names(s, "d"); err != nil || got != want {
			t.Errorf("%s, %v", got, err)
		}
		s, w := lister(t, "az://c@account/", "marker", map[string]string{
			"":  begin + blob(">a", "") + `</Blobs><NextMarker>m</NextMarker>` + end,
			"m": begin + blob(">b", "") + `</Blobs><NextMarker>n</NextMarker>` + end,
			"n": begin + blob(">c", "") + `</Blobs><NextMarker>m</NextMarker>` + end,
		})
		if got, err := names(s, ""); err == nil || got != "" || !strings.Contains(err.Error(), "does not end") || w.requests.Load() > 8 {
			t.Errorf("a circle: %s, %v, %d requests", got, err, w.requests.Load())
		}
	})
}

// TestListDenied: a user with permission to read may not be allowed to list.
func TestListDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, refuse(http.StatusForbidden, "AccessDenied"))
		s := w.open(t, "gs://bucket/", Options{Endpoint: "http://host", Anonymous: true})
		_, err := names(s, "a/")
		if !errors.Is(err, ErrDenied) || err.Error() != "gs://bucket/a/: access denied: 403 AccessDenied, without credentials" {
			t.Error(err)
		}
	})
}
