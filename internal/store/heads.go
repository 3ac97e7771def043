package store

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// Requests and answers nearly always have heads of the same simple form, which is handled here. All
// others, malformed ones included, are left to net/http. It takes about 8 microseconds longer for
// the two heads of an image, because decoding images drives its code out of the processor's caches.

// writeHead is [http.Request.Write], if nothing has to be added to the header of a request without
// a body.
func writeHead(w *bufio.Writer, r *http.Request) error {
	if r.Body != nil || !consists(r.Host, "-.:[]0123456789") {
		return r.Write(w)
	}
	for _, values := range r.Header {
		if len(values) != 1 || strings.ContainsAny(values[0], "\r\n\x00") {
			return r.Write(w)
		}
	}
	for _, part := range [...]string{r.Method, " ", r.URL.RequestURI(), " HTTP/1.1\r\nHost: ", r.Host} {
		_, _ = w.WriteString(part) // Flush has the error
	}
	for name, values := range r.Header {
		for _, part := range [...]string{"\r\n", name, ": ", values[0]} {
			_, _ = w.WriteString(part)
		}
	}
	_, err := w.WriteString("\r\n\r\n")
	return err
}

// readHead is [http.ReadResponse].
func readHead(in *bufio.Reader, r *http.Request) (*http.Response, error) {
	if _, err := in.Peek(1); err == nil && r.Method == http.MethodGet {
		buffered, _ := in.Peek(in.Buffered())
		if end := bytes.Index(buffered, []byte("\r\n\r\n")); end >= 0 {
			if answer := usual(string(buffered[:end])); answer != nil {
				_, _ = in.Discard(end + len("\r\n\r\n"))
				answer.Request = r
				answer.Body = &counted{in, answer.ContentLength}
				return answer, nil
			}
		}
	}
	return http.ReadResponse(in, r)
}

// usual parses a head, given without its empty line, of a success whose body has a length. nil:
// net/http has to parse it.
func usual(head string) *http.Response {
	line, rest, _ := strings.Cut(head, "\r\n")
	a := &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header, 16), ContentLength: -1}
	switch line {
	case "HTTP/1.1 206 Partial Content":
		a.StatusCode = http.StatusPartialContent
	case "HTTP/1.1 200 OK":
		a.StatusCode = http.StatusOK
	default:
		return nil
	}
	a.Status = line[len("HTTP/1.1 "):]
	values := make([]string, 0, 16)
	for rest != "" {
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, found := strings.Cut(line, ":")
		if !found || name == "" || !consists(name, "-0123456789") || strings.ContainsFunc(value, unusualInValue) {
			return nil
		}
		name, value = textproto.CanonicalMIMEHeaderKey(name), textproto.TrimString(value)
		if _, twice := a.Header[name]; twice {
			return nil
		}
		switch name {
		case "Transfer-Encoding", "Connection", "Trailer", "Pragma":
			return nil
		case "Content-Length":
			n, err := strconv.ParseUint(value, 10, 63)
			if err != nil || n == 0 {
				return nil
			}
			a.ContentLength = int64(n)
		}
		values = append(values, value)
		a.Header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	if a.ContentLength < 0 {
		return nil
	}
	return a
}

func unusualInValue(c rune) bool { return c < ' ' || c >= 0x7f }

// counted is a body of a known length. Its last bytes come with [io.EOF].
type counted struct {
	in   io.Reader
	left int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.in.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	switch {
	case c.left == 0:
		err = io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close implements io.Closer.
func (c *counted) Close() error { return nil }
