package store

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// A bearer shows a token that expires.
type bearer struct {
	source string
	fetch  func(ctx context.Context) (token string, until time.Time, err error)

	mu     sync.Mutex
	header []string // the last token
	until  time.Time
}

// tokenMargin is how long before its end a token is not used any more.
const tokenMargin = 2 * time.Minute

func (b *bearer) String() string { return b.source }

func (b *bearer) renew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.header = nil
}

func (b *bearer) sign(ctx context.Context, r *http.Request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.header == nil || time.Until(b.until) < tokenMargin {
		token, until, err := b.fetch(ctx)
		if err != nil {
			return noCredentials(ctx, b.source, err)
		}
		b.header, b.until = []string{"Bearer " + token}, until
	}
	r.Header["Authorization"] = b.header
	return nil
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
func (f *fixed) renew()         {}
func (f *fixed) String() string { return f.source }

func fixedToken(token string) signer { return &fixed{"the token given", []string{"Bearer " + token}} }

// basic is for a user and password in a URL.
func basic(u *url.Userinfo) signer {
	password, _ := u.Password()
	return &fixed{"the URL", []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password))}}
}

// noCredentials is the failure to get credentials, which may be passing.
func noCredentials(ctx context.Context, source string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &failure{kind: ErrDenied, why: "no credentials from " + source + ": " + clean(err.Error()) + anonymousHint, again: true}
}

const anonymousHint = "; data that is public needs none (anonymous)"
