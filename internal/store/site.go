package store

import (
	"context"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A site says where a store's objects are, whatever its protocol. Its fields hold the differences
// between protocols, and do not change once it is open.
type site struct {
	*client
	shown  string                  // for people; names are appended
	base   atomic.Pointer[url.URL] // of the objects; names are appended to its path
	header http.Header             // of every request
	signer signer                  // nil: anonymous
	hint   string                  // added to the error if access is denied
	// pages lists the objects with a prefix, from after a name on; nil: there is no list.
	pages  func(prefix, after string) pager
	sorts  bool                // pages are unordered, and cannot begin after a name
	move   func(region string) // tells where the bucket really is; nil: it cannot move
	pinned bool                // base fixes the version of all objects, so If-Match is not needed
}

// A signer adds credentials to requests.
type signer interface {
	// sign signs a request. repeated says that more requests with the same URL will probably follow
	// soon.
	sign(ctx context.Context, r *http.Request, repeated bool) error
	renew(expired string) // drops the credentials that made this Authorization
	String() string       // where the credentials come from
}

func newSite(o Options) *site {
	return &site{client: newClient(o), header: http.Header{"User-Agent": {"batchfs"}}}
}

// URL implements [Store].
func (s *site) URL(name string) string { return s.shown + name }

// request makes an unsigned GET request for an object below a place, or for the place.
func (s *site) request(ctx context.Context, place *url.URL, name string, extra url.Values) *http.Request {
	u := *place
	u.RawPath = u.EscapedPath() + escape(name)
	u.Path += name
	if extra != nil {
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += extra.Encode()
	}
	header := make(http.Header, len(s.header)+8)
	for key, values := range s.header {
		header[key] = values
	}
	r := &http.Request{Method: http.MethodGet, URL: &u, Host: u.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return r.WithContext(ctx)
}

// finish signs a request. The headers with the range and the version are added later: they need not
// be signed, because the answer is checked. The header that asks for bytes without compression is
// not signed either, because proxies change it.
func (s *site) finish(r *http.Request, repeated bool) (*http.Request, error) {
	if s.signer != nil {
		if err := s.signer.sign(r.Context(), r, repeated); err != nil {
			return nil, err
		}
	}
	r.Header["Accept-Encoding"] = []string{"identity"}
	return r, nil
}

// mend renews credentials and follows a bucket to its region. Another call may have done so.
func (s *site) mend(f *failure) bool {
	switch {
	case f.region != "" && s.move != nil:
		s.move(f.region)
	case f.expired != "" && s.signer != nil:
		s.signer.renew(f.expired)
	default:
		return false
	}
	return true
}

// escape writes a name as a path, as Amazon's signatures want it.
func escape(name string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(name) + 16)
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~/", c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// judge returns the failure that an answer describes.
func (s *site) judge(answer *http.Response) *failure {
	said := s.reason(answer)
	f := &failure{why: strings.TrimSpace(strconv.Itoa(answer.StatusCode) + " " + said.Code)}
	switch status := answer.StatusCode; {
	case status == http.StatusNotFound && noPlace[said.Code]:
		f.kind = ErrNoPlace
	case status == http.StatusNotFound || status == http.StatusGone:
		f.kind = ErrNotExist
	case status == http.StatusPreconditionFailed || status == http.StatusRequestedRangeNotSatisfiable:
		f.kind = ErrChanged
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		s.count.throttled.Add(1)
		f.kind, f.retryable, f.throttled, f.after = ErrBusy, true, true, retryAfter(answer)
	case status >= 500 && status != http.StatusNotImplemented, status == http.StatusRequestTimeout, said.Code == "RequestTimeout":
		f.kind, f.retryable = ErrBusy, true
	case status < 300, status == http.StatusNotModified, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		f.kind = ErrNoRange
	default:
		f.kind = ErrDenied
		f.why += ", " + s.who()
		if status == http.StatusUnauthorized || expired[said.Code] {
			f.expired = answer.Request.Header.Get("Authorization")
		}
		if status/100 == 3 || status == http.StatusBadRequest {
			f.region = said.Region
		}
	}
	return f
}

// who describes the credentials of requests, and adds the hint.
func (s *site) who() string {
	if s.signer == nil {
		return "without credentials" + s.hint
	}
	return "with credentials from " + s.signer.String() + s.hint
}

// noPlace has the error codes for a missing container of objects: that is no object's fault.
var noPlace = map[string]bool{"NoSuchBucket": true, "ContainerNotFound": true, "RepoNotFound": true, "RevisionNotFound": true}

// expired has the error codes for credentials that have become invalid.
var expired = map[string]bool{
	"ExpiredToken": true, "ExpiredTokenException": true, "TokenRefreshRequired": true, "InvalidToken": true, "InvalidAccessKeyId": true,
}

// refusal is the body of an error. Nothing else of the body is shown: servers repeat signatures and
// keys.
type refusal struct {
	Code   string
	Region string
}

const longestRefusal = 64 << 10

func (s *site) reason(answer *http.Response) refusal {
	var said refusal
	body, _ := io.ReadAll(io.LimitReader(answer.Body, longestRefusal))
	if strings.HasPrefix(strings.TrimLeft(string(body), "\ufeff \r\n"), "<") {
		_ = xml.Unmarshal(body, &said) // it may be a proxy's page
	}
	for _, key := range []string{"X-Ms-Error-Code", "X-Error-Code"} {
		if said.Code == "" {
			said.Code = answer.Header.Get(key)
		}
	}
	if region := answer.Header.Get("X-Amz-Bucket-Region"); region != "" {
		said.Region = region
	}
	if !word(said.Code, "") {
		said.Code = ""
	}
	if !word(said.Region, "-0123456789") {
		said.Region = ""
	}
	return said
}

// word reports whether s is short and consists of letters and characters of also.
func word(s, also string) bool {
	return len(s) <= 48 && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune(also, c)
	})
}

// retryAfter is how long the server asks to wait, given in seconds or as a time.
func retryAfter(answer *http.Response) time.Duration {
	text := answer.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(max(0, min(seconds, 1e6))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
