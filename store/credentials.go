package store

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A bearer shows a token that expires.
type bearer struct {
	source string
	fetch  func(ctx context.Context) (token string, until time.Time, err error)

	mu       sync.Mutex
	last     granted
	fetching chan struct{} // closed when it is done; nil if nobody fetches
}

// granted is what fetch returned last.
type granted struct {
	header []string // nil: none, or not accepted any more
	until  time.Time
	err    error
}

const (
	tokenMargin = 2 * time.Minute // before its end, a token is not used any more
	tokenLife   = time.Hour       // of those that do not say
)

// useBearer sets the signer, and gets the first token.
func (s *site) useBearer(ctx context.Context, source string, fetch func(context.Context) (string, time.Time, error)) error {
	b := &bearer{source: source, fetch: fetch}
	s.signer = b
	_, err := b.token(ctx)
	return withURL(err, s.shown)
}

func (b *bearer) String() string { return b.source }

func (b *bearer) renew(expired string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.last.header, expired) {
		b.last.header = nil
	}
}

func (b *bearer) sign(ctx context.Context, r *http.Request) error {
	header, err := b.token(ctx)
	r.Header["Authorization"] = header
	return err
}

// token returns the header with a token. One goroutine fetches it for all who wait, as not all
// libraries can be interrupted.
func (b *bearer) token(ctx context.Context) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last.header != nil && time.Until(b.last.until) > tokenMargin {
		return b.last.header, nil
	}
	if b.fetching == nil {
		b.fetching = make(chan struct{})
		go b.refresh(context.WithoutCancel(ctx))
	}
	done := b.fetching
	b.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	b.mu.Lock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if b.last.err != nil {
		return nil, noCredentials(b.source, b.last.err)
	}
	return b.last.header, nil
}

func (b *bearer) refresh(ctx context.Context) {
	token, until, err := b.fetch(ctx)
	if until.IsZero() {
		until = time.Now().Add(tokenLife)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = granted{until: until, err: err}
	if err == nil {
		b.last.header = []string{"Bearer " + token}
	}
	close(b.fetching)
	b.fetching = nil
}

// A fixed credential is one header that never changes.
type fixed struct {
	source string
	header []string
}

func (f *fixed) sign(_ context.Context, r *http.Request) error {
	r.Header["Authorization"] = f.header
	return nil
}
func (f *fixed) renew(string)   {}
func (f *fixed) String() string { return f.source }

func fixedToken(token string) signer { return &fixed{"the token given", []string{"Bearer " + token}} }

// basic is for a user and password in a URL.
func basic(u *url.Userinfo) signer {
	password, _ := u.Password()
	return &fixed{"the URL", []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password))}}
}

// noCredentials is the failure to get credentials, which may be passing.
func noCredentials(source string, err error) error {
	words := strings.Fields(clean(err.Error()))
	why := strings.Join(slices.DeleteFunc(words, func(word string) bool { return strings.Trim(word, "-") == "" }), " ")
	return &failure{kind: ErrDenied, why: "no credentials from " + source + ": " + why, again: true}
}
