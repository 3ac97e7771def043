package store

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"testing"
)

// FuzzReadHead: an answer is what net/http makes of it, with the same body, and as much of what
// follows is left.
func FuzzReadHead(f *testing.F) {
	const ok, part = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 206 Partial Content\r\n"
	for _, seed := range []string{
		part + "Content-Length: 3\r\nETag: \"a\"\r\ncontent-range:bytes 0-2/9\r\n\r\nabcHTTP/1.1 200 OK",
		ok + "content-length: 3\r\n\r\nab", ok + "Content-Length: 0\r\n\r\nabc", ok + "\r\nabc", ok + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
		ok + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", ok + "Content-Length: +3\r\n\r\nabc", ok + "Content-Length : 3\r\n\r\nabc",
		ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", ok + "Connection: close\r\nContent-Length: 3\r\n\r\nabcd",
		ok + "Content-Length: 3\r\n X: folded\r\n\r\nabc", ok + "Content-Length: 3\r\nPragma: no-cache\r\n\r\nabc", ok + "Content-Length: 3\nX: y\r\n\r\nabc",
		"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 3\r\n\r\nabc", ok + "Content-Length: 3\r\nX: a\r\nX: b\r\nx-y:\t\r\n\r\nabc", ok, "",
		ok + "Content-Length: 3\r\n: nothing\r\n\r\nabc", ok + "Content-Length: 9223372036854775808\r\n\r\n", ok + "Content-Length: 3\r\nTrailer: X\r\n\r\nabc",
		ok + "Content-Length: 3\r\nX\u00e9: 1\r\nY: \x00\r\n\r\nabc", ok + "Content-Length: 3\r\nX: a\rb\r\n\r\nabc",
		part + "Content-Length: 3\r\nX: \x7f\r\n\r\nabc",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		type outcome struct {
			answer http.Response
			body   string
			end    string // of the body
			left   string
			err    bool
		}
		read := func(head func(*bufio.Reader, *http.Request) (*http.Response, error)) (o outcome) {
			in := bufio.NewReaderSize(bytes.NewReader(data), 1<<10)
			answer, err := head(in, &http.Request{Method: http.MethodGet})
			if err != nil {
				o.err = true
				return o
			}
			body, err := io.ReadAll(answer.Body)
			if o.body = string(body); err != nil {
				o.end = err.Error()
			}
			left, _ := io.ReadAll(in)
			o.left = string(left)
			o.answer = *answer
			o.answer.Body, o.answer.Request = nil, nil
			return o
		}
		if got, want := read(readHead), read(http.ReadResponse); !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\n%+v, not\n%+v", data, got, want)
		}
	})
}

// FuzzWriteHead: a server reads the same request from it as from what net/http writes.
func FuzzWriteHead(f *testing.F) {
	f.Add("host:9000", "a/b c%?.jpg", "q=1", `"etag"`)
	f.Add("bücher.example", "é", "", "line\r\nInjected: yes")
	f.Add("a b", "", "%%", "\x00")
	f.Fuzz(func(t *testing.T, host, path, query, value string) {
		place := &url.URL{Scheme: "http", Host: host, Path: "/"}
		r := (&site{header: http.Header{"User-Agent": {"batchfs"}}}).request(t.Context(), place, path, nil)
		r.URL.RawQuery = query
		r.Header["If-Match"] = []string{value}
		parse := func(write func(*bufio.Writer, *http.Request) error) (*http.Request, bool) {
			var b bytes.Buffer
			w := bufio.NewWriter(&b)
			if write(w, r) != nil || w.Flush() != nil {
				return nil, false
			}
			q, err := http.ReadRequest(bufio.NewReader(&b))
			return q, err == nil && b.Len() == 0
		}
		got, good := parse(writeHead)
		want, fine := parse(func(w *bufio.Writer, r *http.Request) error { return r.Write(w) })
		if good != fine || good && (got.RequestURI != want.RequestURI || got.Host != want.Host || !reflect.DeepEqual(got.Header, want.Header)) {
			t.Errorf("%v %+v, not %v %+v", good, got, fine, want)
		}
	})
}
