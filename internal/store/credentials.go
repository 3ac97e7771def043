package store

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"golang.org/x/sync/singleflight"
)

// A bearer presents a token that expires.
type bearer struct {
	source string
	fetch  func(ctx context.Context) (token string, until time.Time, err error)

	flight singleflight.Group
	mu     sync.Mutex
	last   granted
}

// granted is what fetch last returned.
type granted struct {
	header []string  // nil: none, or no longer accepted
	renew  time.Time // when it should be replaced
	until  time.Time // its end
	err    error
}

const (
	tokenMargin = 2 * time.Minute  // before its end, a token is replaced
	tokenPause  = 10 * time.Second // between attempts to replace it, while it is valid
	tokenLife   = time.Hour        // of tokens that do not say
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

func (b *bearer) sign(ctx context.Context, r *http.Request, _ bool) error {
	header, err := b.token(ctx)
	r.Header["Authorization"] = header
	return err
}

// token returns the header with a token. One goroutine fetches it for all waiting callers, since
// not all libraries can be interrupted.
func (b *bearer) token(ctx context.Context) ([]string, error) {
	b.mu.Lock()
	last := b.last
	b.mu.Unlock()
	if last.header != nil && time.Now().Before(last.renew) {
		return last.header, nil
	}
	fetched := b.flight.DoChan("", func() (any, error) { return b.refresh(context.WithoutCancel(ctx)), nil })
	select {
	case result := <-fetched:
		last = result.Val.(granted)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if last.err != nil {
		return nil, noCredentials(b.source, last.err)
	}
	return last.header, nil
}

func (b *bearer) refresh(ctx context.Context) granted {
	token, until, err := b.fetch(ctx)
	now := time.Now()
	if until.IsZero() {
		until = now.Add(tokenLife)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.last = granted{header: []string{"Bearer " + token}, renew: until.Add(-min(tokenMargin, until.Sub(now)/2)), until: until}
	case b.last.header != nil && now.Add(tokenPause).Before(b.last.until):
		b.last.renew = now.Add(tokenPause)
	default:
		b.last = granted{err: err}
	}
	return b.last
}

// A fixed credential is one header that never changes.
type fixed struct {
	source string
	header []string
}

func (f *fixed) sign(_ context.Context, r *http.Request, _ bool) error {
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

// noCredentials is the error if there are no credentials. If none exist, it says so in our words,
// since the libraries list everything that they tried. If a login or a service refused, which may
// pass, it gives the library's reason.
func noCredentials(source string, err error) error {
	f := &failure{kind: ErrDenied, why: "no credentials in " + source, retryable: true}
	var azure *azidentity.AuthenticationFailedError
	switch said := err.Error(); {
	case strings.Contains(said, "no EC2 IMDS role found"), strings.Contains(said, "could not find default credentials"):
	case source == azureSource && !errors.As(err, &azure):
	default:
		f.why = "no credentials from " + source + ": " + oneLine(err)
	}
	return f
}

// longestReason is more than a library needs to say why it failed.
const longestReason = 300

// oneLine is the text of a library's error, without credentials, rules of dashes and repetitions.
func oneLine(err error) string {
	words := slices.DeleteFunc(strings.Fields(clean(err.Error())), func(word string) bool { return strings.Trim(word, "-") == "" })
	text := strings.TrimPrefix(strings.Join(words, " "), "failed to refresh cached credentials, ")
	if len(text) > longestReason {
		text = strings.ToValidUTF8(text[:longestReason], "") + " ..."
	}
	return text
}
