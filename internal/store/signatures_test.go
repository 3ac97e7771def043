package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// TestSignatures: the signature of an object of which more parts will be read is made once a
// minute, with the key and region of the moment, and signs no header that says which part. That of
// another object, or of one that is read once, is never shown.
func TestSignatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := "s"
		a := &awsSigner{signatures: memo[signed, http.Header]{life: signatureLife, most: mostSignatures}, v4: v4.NewSigner(), credentials: aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "K", SecretAccessKey: secret, SessionToken: "of " + secret}, nil
		}))}
		place := func(region string) { a.region.Store(&region) }
		place("here")
		sign := func(path string, repeated bool) string {
			r := &http.Request{URL: &url.URL{Scheme: "http", Host: "host", Path: path, RawPath: path}, Header: http.Header{"User-Agent": {"batchfs"}}}
			if err := a.sign(t.Context(), r, repeated); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Content-Sha256", "X-Amz-Security-Token", "User-Agent"} {
				if r.Header.Get(name) == "" {
					t.Errorf("%s: no %s", path, name)
				}
			}
			r.Header.Set("Range", "bytes=0-1") // must not reach what is kept
			return r.Header.Get("Authorization") + r.Header.Get("X-Amz-Security-Token")
		}
		first := sign("/a", true)
		again := func(what string, same bool) {
			t.Helper()
			if got := sign("/a", true); (got == first) != same {
				t.Errorf("%s: %s after %s", what, got, first)
			} else {
				first = got
			}
		}
		time.Sleep(signatureLife - time.Second)
		again("within its life", true)
		if sign("/b", true) == first || sign("/a", false) == first {
			t.Error("another request has the same signature")
		}
		time.Sleep(time.Second)
		again("after its life", false)
		secret = "other"
		a.credentials.Invalidate()
		again("a new key of the same name", false)
		again("that key", true)
		place("elsewhere")
		again("another region", false)
		for i := range mostSignatures {
			sign(fmt.Sprint("/", i), true)
		}
		if n := len(a.signatures.all); n > mostSignatures {
			t.Errorf("%d signatures are kept", n)
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
			parts[r.Header.Get("Authorization")]++
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
