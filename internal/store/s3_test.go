package store

import (
	"context"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestAWSBucketIsElsewhere: the answer names the region, and the request is signed for that.
func TestAWSBucketIsElsewhere(t *testing.T) {
	awsKeys(t)
	var seen []string
	region := "eu-west-3"
	w := newWire(t, func(w http.ResponseWriter, r *http.Request) {
		_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=AKID"+canary+"/")
		seen = append(seen, strings.Split(scope, "/")[1])
		if seen[len(seen)-1] != "eu-west-3" {
			w.Header().Set("X-Amz-Bucket-Region", region)
			refuse(http.StatusMovedPermanently, "PermanentRedirect")(w, r)
			return
		}
		serve(w, r)
	})
	s := w.open(t, "s3://bucket/", Options{Endpoint: "http://host"})
	for range 2 {
		testkit.Must(t, read(t, s, 0, 10))
	}
	if got := strings.Join(seen, " "); got != "us-east-1 eu-west-3 eu-west-3" {
		t.Error(got)
	}
	region, seen = "host.example/", nil
	if err := read(t, w.open(t, "s3://bucket/", Options{Endpoint: "http://host"}), 0, 10); !errors.Is(err, ErrDenied) || len(seen) != 1 {
		t.Errorf("a region that is none: %v, %s", err, seen)
	}
}

func TestAWSAddresses(t *testing.T) {
	other, _ := url.Parse("http://host:9000/x/")
	for _, test := range []struct {
		endpoint            *url.URL
		region, bucket, url string
	}{
		{nil, "us-east-1", "b", "https://b.s3.us-east-1.amazonaws.com/"},
		{nil, "cn-north-1", "b", "https://b.s3.cn-north-1.amazonaws.com.cn/"},
		{nil, "eu-west-1", "a.b", "https://s3.eu-west-1.amazonaws.com/a.b/"},
		{other, "eu-west-1", "b", "http://host:9000/x/b/"},
	} {
		if got := s3Base(test.endpoint, test.region, test.bucket).String(); got != test.url {
			t.Errorf("%s, not %s", got, test.url)
		}
	}
}

// TestAWSConfiguration: the configuration sets the endpoint and further authorities.
func TestAWSConfiguration(t *testing.T) {
	awsKeys(t)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://configured:1/")
	t.Setenv("AWS_REGION", "xx-test-1")
	s, name, err := Open(t.Context(), "s3://bucket/a/b c?.jpg", Options{RequesterPays: true})
	if err != nil || name != "a/b c?.jpg" {
		t.Fatal(name, err)
	}
	r, err := s.(*site).finish(s.(*site).request(t.Context(), s.(*site).base.Load(), name, nil), false)
	if err != nil || r.URL.String() != "http://configured:1/bucket/a/b%20c%3F.jpg" || r.Header.Get("X-Amz-Request-Payer") != "requester" ||
		!strings.Contains(r.Header.Get("Authorization"), "/xx-test-1/s3/aws4_request") {
		t.Errorf("%s %v %v", r.URL, r.Header, err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(serve))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	defer server.Close()
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	testkit.Must(t, os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	for _, known := range []bool{false, true} {
		if t.Setenv("AWS_CA_BUNDLE", ""); known {
			t.Setenv("AWS_CA_BUNDLE", bundle)
		}
		s, _, err := Open(t.Context(), "s3://bucket/", Options{Endpoint: server.URL})
		testkit.Must(t, err)
		if err := read(t, s, 0, 10); known != (err == nil) || err != nil && (!errors.Is(err, ErrUntrusted) || s.Stats().Requests != 1) {
			t.Errorf("with an authority that is known=%v: %v", known, err)
		}
		s.Close()
	}
}

// TestRedirectingGateway: a gateway that redirects readers to other machines, as AIStore's do, is
// followed, but requests for a bucket in another region are signed for that region. The other
// machine gets no credentials.
func TestRedirectingGateway(t *testing.T) {
	awsKeys(t)
	t.Setenv("AWS_SESSION_TOKEN", "canary")
	asked := make(chan *http.Request, 8)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		serve(w, r)
	}))
	defer target.Close()
	moves := false
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch signedFor := r.Header.Get("Authorization"); {
		case signedFor == "" || r.Header.Get("X-Amz-Security-Token") != "canary":
			t.Error("the gateway was shown no credentials")
		case moves && strings.Contains(signedFor, "/xx-east-1/"):
			serve(w, r)
			return
		case moves:
			w.Header().Set("X-Amz-Bucket-Region", "xx-east-1")
		}
		w.Header().Set("Location", target.URL+r.URL.Path+"?pid=p1&utm=1")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	defer gateway.Close()
	s, _, err := Open(t.Context(), "s3://bucket/", Options{Endpoint: gateway.URL + "/s3"})
	testkit.Must(t, err)
	defer s.Close()
	testkit.Must(t, read(t, s, 5, 10))
	r := <-asked
	for name, want := range map[string]string{"Authorization": "", "X-Amz-Security-Token": "", "Range": "bytes=5-14", "If-Match": object.Version} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if r.URL.Path != "/s3/bucket/a" || r.URL.RawQuery != "pid=p1&utm=1" {
		t.Error(r.URL)
	}
	moves = true
	if err := read(t, s, 5, 10); err != nil || len(asked) != 0 {
		t.Error(err, len(asked))
	}
}

// TestAWSExpired: if a key has expired, the first of many requests renews it.
func TestAWSExpired(t *testing.T) {
	keys := 0
	a := &awsSigner{v4: v4.NewSigner(), credentials: aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		keys++
		return aws.Credentials{AccessKeyID: "K" + strconv.Itoa(keys), SecretAccessKey: "s"}, nil
	}))}
	region := "r"
	a.region.Store(&region)
	for range 3 {
		r, err := http.NewRequest(http.MethodGet, "http://host/", nil)
		testkit.Must(t, errors.Join(err, a.sign(t.Context(), r, false)))
		a.renew("AWS4-HMAC-SHA256 Credential=K1/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0")
	}
	if keys != 2 {
		t.Errorf("%d keys", keys)
	}
}
