package store

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// signatures are those of objects that are read in many parts, such as archives. They do not name
// the part, so that requests can share them. Making one takes about a twentieth of the processor
// time of an image of 100 KB.
type signatures struct {
	mu   sync.Mutex
	kept map[signed]signature
}

// signed is the part of a URL that a signature is about.
type signed struct{ host, path, query string }

func signedOf(r *http.Request) signed { return signed{r.URL.Host, r.URL.RawPath, r.URL.RawQuery} }

// A signature is the header of a signed request, before it says which part is wanted.
type signature struct {
	header http.Header // not changed any more
	made   time.Time
	key    *aws.Credentials
	region *string
}

const (
	// Amazon accepts signatures whose time differs from its own by up to 15 minutes.
	signatureLife  = time.Minute
	mostSignatures = 1 << 10 // of about 1 KiB
)

// show adds the signature of an earlier request for the same URL, and reports whether there is one.
func (s *signatures) show(r *http.Request, key *aws.Credentials, region *string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, found := s.kept[signedOf(r)]
	if age := now().Sub(was.made); !found || was.key != key || was.region != region || age < 0 || age >= signatureLife {
		return false
	}
	maps.Copy(r.Header, was.header)
	return true
}

// keep remembers the signature of a request.
func (s *signatures) keep(r *http.Request, key *aws.Credentials, region *string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil || len(s.kept) >= mostSignatures {
		s.kept = map[signed]signature{}
	}
	s.kept[signedOf(r)] = signature{maps.Clone(r.Header), now(), key, region}
}

// now is the time of day, by which the store judges a signature. Unlike the monotonic clock, it
// goes on while the machine sleeps, and it may be set back.
func now() time.Time { return time.Now().Round(0) }
