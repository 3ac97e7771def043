package store

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestMemo: what is kept is found for a while, and there is never more than there may be.
func TestMemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memo[int, string]{life: time.Minute, most: 100}
		expect := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after) // of the bubble
			if got, found := m.find(1); found != (want != "") || found && got != want {
				t.Errorf("%q, %t, not %q", got, found, want)
			}
		}
		expect(0, "")
		m.keep(1, "one")
		expect(time.Minute-1, "one")
		expect(1, "")
		m.keep(1, "another")
		expect(0, "another")
		m.forget(1)
		expect(0, "")
		for i := range 1000 {
			if m.keep(i, "x"); len(m.all) > 100 {
				t.Fatalf("%d values", len(m.all))
			}
		}
	})
}

// TestSignatures: a signature is shown for a minute, with requests for parts of its object alone,
// and without what the first of these added to its header.
func TestSignatures(t *testing.T) {
	awsKeys(t)
	synctest.Test(t, func(t *testing.T) {
		s := newWire(t, serve).open(t, "s3://bucket/", Options{Endpoint: "http://host"})
		sign := func(at string, repeated bool) string {
			place, err := url.Parse(at)
			testkit.Must(t, err)
			r, err := s.finish(s.request(t.Context(), place, "", nil), repeated)
			if err != nil || r.Header.Get("Range") != "" {
				t.Fatal(r, err)
			}
			r.Header.Set("Range", "bytes=0-1")
			return r.Header.Get("Authorization") + r.Header.Get("X-Amz-Date")
		}
		first := sign("http://host/a", true)
		time.Sleep(signatureLife - time.Second) // of the bubble
		if sign("http://host/a", true) != first {
			t.Error("another signature for the same object")
		}
		for _, at := range []string{"http://host/b", "http://host/a?x=y", "http://else/a"} {
			if sign(at, true) == first {
				t.Error("the same signature for", at)
			}
		}
		if sign("http://host/a", false) == first {
			t.Error("the same signature for the whole object")
		}
		time.Sleep(time.Second)
		if sign("http://host/a", true) == first {
			t.Error("the same signature after its life")
		}
	})
}

// TestPartsShareASignature: reads of parts of an object do, but not those of all of it.
func TestPartsShareASignature(t *testing.T) {
	awsKeys(t)
	parts, wholes := map[string]int{}, map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if first, last := asked(r); last-first+1 == len(content) {
			wholes[r.Header.Get("Authorization")]++
		} else {
			parts[r.Header.Get("Authorization")+" at "+r.Header.Get("X-Amz-Date")+r.Header.Get("X-Amz-Security-Token")]++
		}
		serve(w, r)
	}))
	defer server.Close()
	s, _, err := Open(t.Context(), "s3://bucket/", Options{Endpoint: server.URL})
	testkit.Must(t, err)
	defer s.Close()
	testkit.Must(t, errors.Join(read(t, s, 0, len(content)), read(t, s, 0, 10), read(t, s, 10, 10), read(t, s, 500, 10)))
	if len(parts) != 1 || len(wholes) != 1 || s.(*site).signer.(*awsSigner).signatures.all == nil {
		t.Error(parts, wholes)
	}
}
