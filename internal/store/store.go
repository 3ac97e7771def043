package store

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/batchfs/batchfs/internal/option"
)

// An Object is one version of an object.
type Object struct {
	Name    string // its key in the store, without a leading slash
	Size    int64  // bytes
	Version string // its ETag, with quotes; "" where the store has none
	ModTime int64  // ns since 1970, whole seconds; 0 where unknown
}

// A Store reads objects of one bucket, container, repository or server. It is safe for
// concurrent use.
type Store interface {
	// List calls yield for every object whose name begins with prefix, in byte order of the names.
	// An error of yield ends it and is returned. The error is [ErrNoList] if objects cannot be
	// listed.
	List(ctx context.Context, prefix string, yield func(Object) error) error
	// ListAlong is List for a caller that knows some of the names, and wants the list in few round
	// trips: the parts between marks, which are in order, are requested concurrently. The best
	// distance of two marks is a little less than a page (1,000).
	ListAlong(ctx context.Context, prefix string, marks []string, yield func(Object) error) error
	// Stat returns the present version of an object.
	Stat(ctx context.Context, name string) (Object, error)
	// ReadAt reads exactly len(p) bytes at offset, of exactly the version that o names. It returns
	// len(p), or 0 and an error; then p holds anything. It keeps no reference to p.
	ReadAt(ctx context.Context, o Object, p []byte, offset int64) (int, error)
	// URL names an object to people, without any credential.
	URL(name string) string
	// Stats returns what the store has done so far.
	Stats() Stats
	// Held is when the store last made calls wait because it did not answer, or accepted fewer
	// requests than were made: now if it still does, zero if it never did. Away means that it does
	// not answer now.
	Held() (last time.Time, away bool)
	// MemoryBytes is about how much memory the store takes with the maximal number of requests in
	// flight.
	MemoryBytes() int64
	// Close closes idle connections. Reads in progress end with their contexts.
	Close() error
}

// defaultWait is how long a call waits for a store that is away, unless Options.Wait says
// otherwise.
const defaultWait = 5 * time.Minute

// Options are the settings of a store. The zero value is useful.
type Options struct {
	Endpoint      string        // URL of the service, if it is not the vendor's own
	Region        string        // for s3; "": from the AWS configuration, else the bucket's own
	Account       string        // for az, if the URL does not name it
	Anonymous     bool          // use no credentials
	RequesterPays bool          // pay for requests if the bucket demands it (s3, gs)
	Token         string        // an access token (hf)
	Signature     string        // a shared access signature (az)
	MaxRequests   int           // in flight at once; 0: 64
	Timeout       time.Duration // without progress; 0: 20 s
	Wait          time.Duration // how long a call waits during an outage or for permission to send more requests; 0: 5 min; less: not at all
	Logger        *slog.Logger  // for outages, and at level debug for retries and their reasons; nil: none

	// dial replaces the network in tests.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// defaults checks o and fills in defaults.
func (o *Options) defaults() error {
	for _, field := range []struct {
		name  string
		value int64
	}{{"requests at once", int64(o.MaxRequests)}, {"timeout", int64(o.Timeout)}} {
		if err := option.AtLeast(field.name, field.value, 0); err != nil {
			return err
		}
	}
	if err := checkProxies(); err != nil {
		return err
	}
	o.MaxRequests = cmp.Or(o.MaxRequests, 64)
	o.Timeout = cmp.Or(o.Timeout, 20*time.Second)
	o.Wait = cmp.Or(o.Wait, defaultWait)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return nil
}

// checkProxies returns an error if the environment names a proxy that is no URL. net/http would do
// without a proxy.
func checkProxies() error {
	for _, name := range []string{"https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"} {
		proxy := os.Getenv(name)
		_, full := url.Parse(proxy)
		_, short := url.Parse("http://" + proxy)
		if full != nil && short != nil {
			return &option.Error{Field: name, Rule: "the URL of a proxy, such as http://USER:PASSWORD@HOST:PORT, with % in a password written as %25", Value: clean(proxy)}
		}
	}
	return nil
}

// service returns the URL of a service, with a slash at its end.
func service(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &option.Error{Field: "endpoint", Rule: "a URL such as https://host:port, without user or query", Value: clean(endpoint)}
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	return u, nil
}

// openers has a function for each scheme.
var openers = map[string]func(ctx context.Context, s *site, rest string, o Options) (name string, err error){
	"s3": openS3, "gs": openGS, "az": openAZ, "hf": openHF,
	"http": openHTTP, "https": openHTTP,
}

// IsURL reports whether s is a URL with a scheme that [Open] knows.
func IsURL(s string) bool {
	scheme, _, found := strings.Cut(s, "://")
	return found && openers[strings.ToLower(scheme)] != nil
}

// Public is a path, or a URL without a password or signature in it.
func Public(name string) string {
	scheme, rest, _ := strings.Cut(name, "://")
	if s := strings.ToLower(scheme); s != "http" && s != "https" {
		return name
	}
	rest, _, _ = strings.Cut(rest, "?")
	host, rest, _ := strings.Cut(rest, "/")
	return scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + "/" + rest
}

// Split splits a URL into the URL of its store and the name there.
func Split(address string) (place, name string) {
	scheme, rest, _ := strings.Cut(address, "://")
	switch strings.ToLower(scheme) {
	case "http", "https":
		u, err := url.Parse(address)
		if err != nil {
			return address, ""
		}
		name = strings.TrimPrefix(u.Path, "/")
		u.Path, u.RawPath = "/", ""
		return u.String(), name
	case "hf":
		if parts := hubURL.FindStringSubmatch(rest); parts != nil {
			name = parts[3]
		}
	default:
		_, name, _ = strings.Cut(rest, "/")
	}
	return strings.TrimSuffix(address, name), name
}

// Open returns the store of a URL, and the name of the object, or the prefix, in it; "" for the
// whole store. It looks for credentials. It uses the network only for those, and to find the commit
// of a revision (hf). The errors are [*option.Error] for a setting, and those of the package.
func Open(ctx context.Context, url string, o Options) (s Store, name string, err error) {
	scheme, rest, _ := strings.Cut(url, "://")
	scheme = strings.ToLower(scheme)
	open := openers[scheme]
	if open == nil {
		return nil, "", fmt.Errorf("%s: not a URL of s3, gs, az, hf, http or https", clean(url))
	}
	if err := o.defaults(); err != nil {
		return nil, "", err
	}
	if scheme == "http" || scheme == "https" {
		rest = scheme + "://" + rest
	}
	place := newSite(o)
	if name, err = open(ctx, place, rest, o); err != nil {
		place.Close()
		if ctx.Err() != nil {
			err = contextError(ctx, place.shown)
		}
		return nil, "", err
	}
	return place, name, nil
}
