package store

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
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
	// What yield returns ends it. The error is [ErrNoList] where objects cannot be listed.
	List(ctx context.Context, prefix string, yield func(Object) error) error
	// ListAlong is List for a caller that knows some of the names, and wants the list in few round
	// trips: the parts between marks, which are in order, are asked for side by side. That is best
	// if there is almost a page (1,000) between two.
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
	// Held is when the store last had calls wait because it answered nobody, or accepted fewer
	// requests than there were; now, if it still does, and zero if it never did. Away means that it
	// answers nobody now.
	Held() (last time.Time, away bool)
	// MemoryBytes is about how much memory the store takes while as many requests as may be are
	// under way.
	MemoryBytes() int64
	// Close gives idle connections back. Reads that are under way end with their contexts.
	Close() error
}

// defaultWait is how long a call waits for a store that is away, unless Options.Wait says
// otherwise.
const defaultWait = 5 * time.Minute

// Options are the settings of a store. The zero value is useful.
type Options struct {
	Endpoint      string        // URL of the service, if it is not the vendor's own
	Region        string        // of s3; "": the AWS configuration's, then the bucket's own
	Account       string        // of az, where the URL does not name it
	Anonymous     bool          // use no credentials
	RequesterPays bool          // pay for requests, where the bucket asks for that (s3, gs)
	Token         string        // an access token (hf)
	Signature     string        // a shared access signature (az)
	MaxRequests   int           // in flight at once; 0: 64
	Timeout       time.Duration // without progress; 0: 20 s
	Wait          time.Duration // how long a call waits for a store that is away or refuses requests for their number; 0: 5 min; less: not at all
	Logger        *slog.Logger  // outages; and what is tried again, and why, at level debug; nil: nowhere

	// dial replaces the network in tests.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// defaults checks o and fills in what it leaves open.
func (o *Options) defaults() error {
	for _, field := range []struct {
		name  string
		value int64
	}{{"requests at once", int64(o.MaxRequests)}, {"timeout", int64(o.Timeout)}} {
		if err := option.AtLeast(field.name, field.value, 0); err != nil {
			return err
		}
	}
	o.MaxRequests = cmp.Or(o.MaxRequests, 64)
	o.Timeout = cmp.Or(o.Timeout, 20*time.Second)
	o.Wait = cmp.Or(o.Wait, defaultWait)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
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

// openers has the schemes.
var openers = map[string]func(ctx context.Context, s *site, rest string, o Options) (name string, err error){
	"s3": openS3, "gs": openGS, "az": openAZ, "abfs": openAZ, "abfss": openAZ, "hf": openHF,
	"http": openHTTP, "https": openHTTP,
}

// IsURL reports whether s is a URL with a scheme that [Open] knows.
func IsURL(s string) bool {
	scheme, _, found := strings.Cut(s, "://")
	return found && openers[strings.ToLower(scheme)] != nil
}

// Split divides a URL into that of its store and the name in it.
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

// Open returns the store that a URL is about, and the name of the object, or the prefix, that it
// names there; "" for the whole store. It looks for credentials, and talks to the network only
// for those, and to find the commit of a revision (hf). The errors are [*option.Error] for a
// setting, and those of the package.
func Open(ctx context.Context, url string, o Options) (s Store, name string, err error) {
	scheme, rest, _ := strings.Cut(url, "://")
	scheme = strings.ToLower(scheme)
	open := openers[scheme]
	if open == nil {
		return nil, "", fmt.Errorf("%s: not a URL of s3, gs, az, abfs, abfss, hf, http or https", clean(url))
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
			err = ended(ctx, place.shown)
		}
		return nil, "", err
	}
	return place, name, nil
}
