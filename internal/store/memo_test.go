package store

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
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
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := errors.Join(read(t, s, 0, len(content)), read(t, s, 0, 10), read(t, s, 10, 10), read(t, s, 500, 10)); err != nil {
		t.Fatal(err)
	}
	if len(parts) != 1 || len(wholes) != 1 || s.(*site).signer.(*awsSigner).signatures.all == nil {
		t.Error(parts, wholes)
	}
}
