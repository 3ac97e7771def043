package store

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWrongAnswers: whatever a server does, the result is the right bytes or an error, and
// permanent failures are not tried again.
func TestWrongAnswers(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		kind   error
	}{
		{"the whole object", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", object.Version)
			_, _ = w.Write(content)
		}, ErrNoRange},
		{"another object of that length as a whole", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", object.Version)
			_, _ = w.Write(content[:1000])
		}, ErrChanged},
		{"another range", func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Range", "bytes=101-1100")
			serve(w, r)
		}, ErrNoRange},
		{"a part of the range", func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Range", "bytes=100-500")
			serve(w, r)
		}, ErrNoRange},
		{"more than the range", headers("Content-Range", "bytes 99-1099/300000"), ErrNoRange},
		{"no range", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "multipart/byteranges; boundary=x")
			w.WriteHeader(http.StatusPartialContent)
		}, ErrNoRange},
		{"another size", headers("Content-Range", "bytes 100-1099/1100"), ErrChanged},
		{"another version", headers("Etag", `"v2"`), ErrChanged},
		{"a weak version", headers("Etag", `W/"v1"`), ErrChanged},
		{"no version", headers("Etag", ""), ErrChanged},
		{"compression", headers("Content-Encoding", "gzip"), ErrNoRange},
		{"more bytes", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", object.Version)
			w.Header().Set("Content-Range", "bytes 100-1099/300000")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[100:1100])
			flush(w)
			_, _ = w.Write(content[:1])
		}, ErrNoRange},
		{"more bytes, as it says", lengths(1500, 1500), ErrNoRange},
		{"404", status(404), ErrNotExist},
		{"no such object", refuse(404, "NoSuchKey"), ErrNotExist},
		{"no such bucket", refuse(404, "NoSuchBucket"), ErrNoPlace},
		{"410", status(410), ErrNotExist},
		{"412", status(412), ErrChanged},
		{"416", status(416), ErrChanged},
		{"400", status(400), ErrDenied},
		{"401", status(401), ErrDenied},
		{"403", status(403), ErrDenied},
		{"501", status(501), ErrNoRange},
		{"405", status(405), ErrNoRange},
		{"304", status(304), ErrNoRange},
		{"204", status(204), ErrNoRange},
		{"a redirection to nowhere", headers302("ftp://x/"), ErrAway},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			w := newWire(t, test.answer)
			s := w.open(t, "http://host/", Options{})
			if err := read(t, s, 100, 1000); !errors.Is(err, test.kind) || !strings.HasPrefix(err.Error(), "http://host/a: ") {
				t.Errorf("error %v, not %v", err, test.kind)
			}
			if n := w.requests.Load(); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// headers is a good server but for one header.
func headers(key, value string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { serve(&changed{w, key, value}, r) }
}

func headers302(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}
}

type changed struct {
	http.ResponseWriter
	key, value string
}

func (c *changed) WriteHeader(code int) {
	if c.Header().Set(c.key, c.value); c.value == "" {
		c.Header().Del(c.key)
	}
	c.ResponseWriter.WriteHeader(code)
}

func refuse(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`<?xml version="1.0"?><Error><Code>` + code + `</Code><Message>canary</Message></Error>`))
	}
}

func TestNameIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, serve)
		s := w.open(t, "http://nowhere/", Options{})
		s.pool.dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.DNSError{Err: "no such host", Name: "nowhere", IsNotFound: true}
		}
		if err := read(t, s, 0, 10); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "lookup nowhere: no such host") || s.Stats().Requests != 1 {
			t.Errorf("%v, %+v", err, s.Stats())
		}
	})
}

// TestWithoutVersion: without an ETag, the modification time and the size must suffice.
func TestWithoutVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written, ignored := time.Now().Add(-time.Hour), ""
		s := newWire(t, func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del(ignored)
			http.ServeContent(w, r, "", written, strings.NewReader(string(content)))
		}).open(t, "http://host/", Options{})
		o, err := s.Stat(t.Context(), "a")
		if want := (Object{"a", int64(len(content)), "", written.UnixNano()}); err != nil || o != want {
			t.Fatalf("%+v, %v", o, err)
		}
		p := make([]byte, 10)
		if _, err := s.ReadAt(t.Context(), o, p, 5); err != nil || string(p) != string(content[5:15]) {
			t.Error(err)
		}
		if _, err := s.ReadAt(t.Context(), o, make([]byte, o.Size), 0); err != nil {
			t.Errorf("the whole object: %v", err)
		}
		written = written.Add(time.Minute)
		for _, header := range []string{"", "If-Unmodified-Since"} {
			ignored = header
			if _, err := s.ReadAt(t.Context(), o, p, 5); !errors.Is(err, ErrChanged) {
				t.Errorf("after a change: %v", err)
			}
		}
	})
}

// TestStatWithoutRanges: a server that cannot serve parts is found out at once.
func TestStatWithoutRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", object.Version)
			_, _ = w.Write(content)
		})
		s := w.open(t, "http://host/", Options{})
		if _, err := s.Stat(t.Context(), "a"); !errors.Is(err, ErrNoRange) {
			t.Error(err)
		}
		if err := read(t, s, 0, 10); !errors.Is(err, ErrNoRange) || !strings.Contains(err.Error(), "with the whole object") || s.Stats().Bytes > 0 {
			t.Error(err)
		}
		w.handler = headers("Content-Range", "bytes 0-9/*")
		if _, err := s.ReadAt(t.Context(), Object{Name: "a", Size: 10}, make([]byte, 10), 0); !errors.Is(err, ErrNoRange) {
			t.Errorf("neither a version nor a size: %v", err)
		}
		if err := read(t, s, 0, 10); err != nil {
			t.Errorf("a version, but no size: %v", err)
		}
		w.handler = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Etag", `"0"`) }
		if o, err := s.Stat(t.Context(), "a"); err != nil || o != (Object{Name: "a", Version: `"0"`}) {
			t.Errorf("an empty object: %+v, %v", o, err)
		}
		if err := s.List(t.Context(), "", nil); !errors.Is(err, ErrNoList) {
			t.Errorf("a list: %v", err)
		}
	})
}

func TestReadOutside(t *testing.T) {
	s := newSite(Options{MaxRequests: 1})
	for _, part := range [][2]int64{{-1, 1}, {object.Size, 1}, {object.Size - 5, 6}, {object.Size + 1, 0}} {
		if _, err := s.ReadAt(t.Context(), object, make([]byte, part[1]), part[0]); err == nil {
			t.Errorf("%d bytes at %d are read", part[1], part[0])
		}
	}
	if n, err := s.ReadAt(t.Context(), object, nil, object.Size); n != 0 || err != nil {
		t.Errorf("nothing at the end: %v", err)
	}
}
