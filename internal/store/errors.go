package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// The kinds of errors. Errors of a [Store] wrap one of them, or the cause of the context's end.
var (
	ErrURL       = errors.New("bad URL")
	ErrNoPlace   = errors.New("there is no such bucket, container or repository")
	ErrNotExist  = errors.New("no such object")
	ErrChanged   = errors.New("the object has changed")
	ErrDenied    = errors.New("access denied")
	ErrAway      = errors.New("the store cannot be reached")
	ErrUntrusted = errors.New("the server's certificate is not trusted")
	ErrBusy      = errors.New("the store does not serve requests now")
	ErrNoList    = errors.New("the store cannot list its objects")
	ErrNoRange   = errors.New("the server does not serve parts of objects")
)

// A failure is an error of one request.
type failure struct {
	url  string // without credentials
	kind error  // one of the above
	why  string // without credentials

	retryable bool          // another try may succeed
	throttled bool          // the store wants fewer requests
	after     time.Duration // and none before this time has passed
	expired   string        // the Authorization that is no longer accepted
	region    string        // where the bucket really is
}

func (f *failure) Error() string {
	text := f.kind.Error()
	if f.why != "" {
		text += ": " + f.why
	}
	if f.url != "" {
		text = f.url + ": " + text
	}
	return text
}

func (f *failure) Unwrap() error { return f.kind }

// contextError returns the error for a context that is done.
func contextError(ctx context.Context, url string) error {
	return fmt.Errorf("%s: %w", url, context.Cause(ctx))
}

var (
	userinfo = regexp.MustCompile(`[^/\s"]*@`)
	query    = regexp.MustCompile(`\?[^\s"]*`)
)

// clean removes the parts of URLs in a text that can hold credentials: users, passwords and
// queries.
func clean(text string) string {
	return query.ReplaceAllString(userinfo.ReplaceAllString(text, ""), "")
}

// wrongURL is the error for a URL that is not of the form that is expected.
func wrongURL(url, form string) error {
	return &failure{url: clean(url), kind: ErrURL, why: form + " is expected"}
}

// withURL names the place in a failure that does not.
func withURL(err error, url string) error {
	var f *failure
	if errors.As(err, &f) {
		f.url = url
	}
	return err
}
