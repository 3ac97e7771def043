package store

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// openHTTP opens http(s)://HOST/NAME. All requests keep a query, since it may be a signature.
func openHTTP(_ context.Context, s *site, rest string, o Options) (name string, err error) {
	u, err := url.Parse(rest)
	if err != nil || u.Host == "" {
		return "", wrongURL(rest, "https://HOST/NAME")
	}
	if u.User != nil && !o.Anonymous {
		s.signer = basic(u.User)
	}
	s.base.Store(&url.URL{Scheme: strings.ToLower(u.Scheme), Host: u.Host, Path: "/", RawQuery: u.RawQuery})
	s.shown = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}).String()
	s.transport = s.pool.follow
	return strings.TrimPrefix(u.Path, "/"), nil
}

const mostRedirects = 5

// follow is RoundTrip with redirections. Credentials are shown only to the first host.
func (c *connections) follow(r *http.Request) (*http.Response, error) {
	for hops := 0; ; hops++ {
		answer, err := c.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if !redirected(answer) {
			return answer, nil
		}
		_, _ = io.CopyN(io.Discard, answer.Body, 4<<10) // the connection stays usable
		answer.Body.Close()
		if hops == mostRedirects {
			return nil, &failure{kind: ErrAway, why: "it redirects in circles"}
		}
		if r, err = redirect(r, answer); err != nil {
			return nil, err
		}
	}
}

func redirected(answer *http.Response) bool {
	if answer.Header.Get("X-Amz-Bucket-Region") != "" {
		return false // the request is signed for that region instead
	}
	switch answer.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return answer.Header.Get("Location") != ""
	}
	return false
}

// redirect returns the request to which an answer to r redirects.
func redirect(r *http.Request, answer *http.Response) (*http.Request, error) {
	to, err := r.URL.Parse(answer.Header.Get("Location"))
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
		return nil, &failure{kind: ErrAway, why: "it redirects to what is not a URL"}
	}
	if r.URL.Scheme == "https" && to.Scheme == "http" {
		return nil, &failure{kind: ErrAway, why: "it redirects to a connection without encryption"}
	}
	to.User = nil
	next := r.Clone(r.Context())
	next.Response = answer
	next.URL, next.Host = to, to.Host
	if to.Host != r.URL.Host || to.Scheme != r.URL.Scheme {
		next.Header.Del("Authorization")
		next.Header.Del("X-Amz-Security-Token")
	}
	return next, nil
}
