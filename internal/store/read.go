package store

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Stat implements [Store]. It asks for the first byte instead of only the headers: the error of a
// HEAD request has no text, and the answer shows whether the server supports ranges.
func (s *site) Stat(ctx context.Context, name string) (Object, error) {
	var o Object
	err := s.do(ctx, &call{
		url: s.URL(name), mend: s.mend,
		ask: func(ctx context.Context) (*http.Request, error) {
			r, err := s.finish(s.request(ctx, s.base.Load(), name, nil), false)
			if err == nil {
				r.Header["Range"] = []string{"bytes=0-0"}
			}
			return r, err
		},
		use: func(answer *http.Response) (err error) {
			o, err = s.stat(name, answer)
			return err
		},
	})
	return o, err
}

// stat returns the object that an answer to a request for the first byte describes.
func (s *site) stat(name string, answer *http.Response) (Object, error) {
	o := Object{Name: name, Version: answer.Header.Get("Etag"), ModTime: modified(answer)}
	switch answer.StatusCode {
	case http.StatusPartialContent:
		if _, _, o.Size = contentRange(answer); o.Size < 0 {
			return o, &failure{kind: ErrNoRange, why: noSize}
		}
		_, err := io.Copy(io.Discard, io.LimitReader(answer.Body, 2)) // the connection stays usable
		return o, err
	case http.StatusRequestedRangeNotSatisfiable: // there is no first byte
		if _, total, _ := strings.Cut(answer.Header.Get("Content-Range"), "/"); total == "0" || total == "" {
			return o, nil
		}
	case http.StatusOK:
		if answer.ContentLength == 0 {
			return o, nil
		}
		return o, &failure{kind: ErrNoRange, why: "it answers with the whole object"}
	}
	return o, s.judge(answer)
}

// modified is the time of an answer's Last-Modified; 0 if there is none.
func modified(answer *http.Response) int64 { return httpTime(answer.Header.Get("Last-Modified")) }

func httpTime(text string) int64 {
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return at.Unix() * int64(time.Second)
}

// ReadAt implements [Store].
func (s *site) ReadAt(ctx context.Context, o Object, p []byte, offset int64) (int, error) {
	if offset < 0 || offset > o.Size || int64(len(p)) > o.Size-offset {
		return 0, fmt.Errorf("%s: %d bytes at %d are not in an object of %d bytes", s.URL(o.Name), len(p), offset, o.Size)
	}
	if len(p) == 0 {
		return 0, nil
	}
	r := &reading{site: s, object: o, left: p, offset: offset}
	if err := s.do(ctx, &call{url: s.URL(o.Name), hedge: true, ask: r.ask, use: r.use, mend: s.mend}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// A reading is a read of a part of an object. A try continues where the last one was cut off.
type reading struct {
	*site
	object Object
	left   []byte // still to be read
	offset int64  // of left
}

func (r *reading) ask(ctx context.Context) (*http.Request, error) {
	part := int64(len(r.left)) < r.object.Size
	q, err := r.finish(r.request(ctx, r.base.Load(), r.object.Name, nil), part)
	if err != nil {
		return nil, err
	}
	buffer := append(make([]byte, 0, 48), "bytes="...)
	buffer = append(strconv.AppendInt(buffer, r.offset, 10), '-')
	buffer = strconv.AppendInt(buffer, r.offset+int64(len(r.left))-1, 10)
	q.Header["Range"] = []string{string(buffer)}
	switch version := r.object.Version; {
	case r.pinned:
	case strong(version):
		q.Header["If-Match"] = []string{version}
	case version == "" && r.object.ModTime != 0:
		q.Header["If-Unmodified-Since"] = []string{time.Unix(0, r.object.ModTime).UTC().Format(http.TimeFormat)}
	}
	return q, nil
}

// strong reports whether an ETag is valid in If-Match.
func strong(etag string) bool { return etag != "" && !strings.HasPrefix(etag, "W/") }

func (r *reading) use(answer *http.Response) error {
	if err := r.check(answer); err != nil {
		return err
	}
	n, err := io.ReadFull(answer.Body, r.left)
	r.count.bytes.Add(int64(n))
	if err == nil {
		var more [1]byte
		if extra, _ := io.ReadFull(answer.Body, more[:]); extra == 0 {
			return nil
		}
		return &failure{kind: ErrNoRange, why: "it answers with more bytes than it was asked for"}
	}
	if strong(r.object.Version) && answer.StatusCode == http.StatusPartialContent {
		r.left, r.offset = r.left[n:], r.offset+int64(n)
	}
	return &failure{kind: ErrAway, why: "it answers with fewer bytes than it was asked for", retryable: true}
}

const noSize = "it does not say how large the object is"

// check returns an error if the answer is not about exactly the requested bytes.
func (r *reading) check(answer *http.Response) error {
	size := r.object.Size
	if coding := answer.Header.Get("Content-Encoding"); answer.StatusCode/100 == 2 && coding != "" && coding != "identity" {
		return &failure{kind: ErrNoRange, why: "it compresses what it serves"}
	}
	switch answer.StatusCode {
	case http.StatusPartialContent:
		first, last, total := contentRange(answer)
		if total >= 0 && total != size {
			return &failure{kind: ErrChanged, why: fmt.Sprintf("it has %d bytes, not %d", total, size)}
		}
		if first != r.offset || last != r.offset+int64(len(r.left))-1 {
			return &failure{kind: ErrNoRange, why: "it answers with other bytes than it was asked for"}
		}
		if total < 0 && r.object.Version == "" {
			return &failure{kind: ErrNoRange, why: noSize}
		}
	case http.StatusOK:
		if answer.ContentLength >= 0 && answer.ContentLength != size {
			return &failure{kind: ErrChanged, why: fmt.Sprintf("it has %d bytes, not %d", answer.ContentLength, size)}
		}
		if int64(len(r.left)) != size {
			return &failure{kind: ErrNoRange, why: "it answers with the whole object"}
		}
	default:
		return r.judge(answer)
	}
	if r.object.Version != "" {
		if answer.Header.Get("Etag") != r.object.Version {
			return &failure{kind: ErrChanged, why: "it has another ETag"}
		}
	} else if r.object.ModTime != 0 && r.object.ModTime != modified(answer) {
		return &failure{kind: ErrChanged, why: "it has another modification time"}
	}
	return nil
}

// contentRange returns the first and last byte of an answer's range, and the object's size. -1: not
// given.
func contentRange(answer *http.Response) (first, last, size int64) {
	number := func(text string) int64 {
		if n, err := strconv.ParseUint(text, 10, 63); err == nil {
			return int64(n)
		}
		return -1
	}
	text, found := strings.CutPrefix(answer.Header.Get("Content-Range"), "bytes ")
	part, total, _ := strings.Cut(text, "/")
	from, to, _ := strings.Cut(part, "-")
	if !found {
		return -1, -1, -1
	}
	return number(from), number(to), number(total)
}
