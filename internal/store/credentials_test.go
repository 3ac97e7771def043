package store

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

const canary = "canary7"

// awsKeys makes AWS's library find only the keys given here.
func awsKeys(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKID"+canary)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret"+canary)
	t.Setenv("AWS_SESSION_TOKEN", "session"+canary)
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// noAWSKeys makes it find none at all.
func noAWSKeys(t *testing.T) {
	awsKeys(t)
	for _, key := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(key, "")
	}
}

// TestNoCredentialIsShown: whatever goes wrong, no error, log, name or object contains a
// credential, even if the server repeats everything that it was sent.
func TestNoCredentialIsShown(t *testing.T) {
	awsKeys(t)
	echo := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			said := r.URL.String() + " " + strings.Join(r.Header["Authorization"], " ") + " " + r.Header.Get("X-Amz-Security-Token") + canary
			for _, key := range []string{"Etag", "X-Error-Code", "X-Ms-Error-Code", "X-Amz-Bucket-Region", "Retry-After", "Last-Modified"} {
				w.Header().Set(key, said)
			}
			w.Header().Set("Location", "https://user:"+canary+"@other/?sig="+canary)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<Error><Code>"+said+"</Code><Region>"+said+"</Region><Message>"+said+"</Message></Error>")
		}
	}
	handlers := map[string]http.HandlerFunc{
		"reset":  func(http.ResponseWriter, *http.Request) { abort() },
		"circle": func(w http.ResponseWriter, r *http.Request) { headers302(r.URL.Path+"?sig="+canary)(w, r) },
		"scheme": headers302("ftp://user:" + canary + "@x/?sig=" + canary),
		"no URL": headers302("http://%zz" + canary),
	}
	for _, code := range []int{200, 206, 301, 307, 400, 401, 403, 404, 412, 429, 500, 503} {
		handlers[http.StatusText(code)] = echo(code)
	}
	places := map[string]Options{
		"http://user:" + canary + "@host/a?X-Amz-Signature=" + canary: {},
		"s3://bucket/a":         {Endpoint: "http://host"},
		"az://container/a":      {Endpoint: "http://host", Signature: "?sv=1&sig=" + canary},
		"hf://datasets/org/d/a": {Endpoint: "http://host", Token: "hf" + canary},
	}
	for name, handler := range handlers {
		for place, o := range places {
			t.Run(name+" "+place[:4], func(t *testing.T) {
				said := ""
				synctest.Test(t, func(t *testing.T) {
					log, text := logged()
					w := newWire(t, handler)
					if strings.HasPrefix(place, "hf") {
						w.handler = hubCommit
					}
					o := o
					o.Logger, o.Wait, o.dial = log, 3*time.Second, w.dial
					s, name, err := Open(t.Context(), place, o)
					testkit.Must(t, err)
					defer s.Close()
					w.handler = handler
					found, err1 := s.Stat(t.Context(), name)
					_, err2 := s.ReadAt(t.Context(), Object{Name: name, Size: 10, Version: `"1"`}, make([]byte, 5), 0)
					err3 := s.List(t.Context(), "", func(Object) error { return nil })
					for _, err := range []error{err1, err2, err3} {
						if err == nil {
							t.Errorf("no error; %+v", found)
						} else {
							said += err.Error() + "\n"
						}
					}
					said += text.String() + s.URL(name) + name
				})
				if strings.Contains(said, canary) || strings.Contains(said, "user") {
					t.Errorf("a credential is shown:\n%s", said)
				}
			})
		}
	}
}

// TestOpenShowsNoCredential: URLs that are refused are shown without them.
func TestOpenShowsNoCredential(t *testing.T) {
	awsKeys(t)
	for _, place := range []string{
		"http://user:" + canary + "@/a", "http://user:" + canary + "@host:port/a?sig=" + canary, "s3://AK:" + canary + "@bucket/a", "gs://u:" + canary + "@b/x",
		"az://c@a@" + canary + "@b/", "hf://user:" + canary + "@datasets/x", "ftp://u:" + canary + "@host/?" + canary,
	} {
		_, _, err := Open(t.Context(), place, Options{Anonymous: true})
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", place, err)
		}
	}
	_, _, err := Open(t.Context(), "s3://b/", Options{Endpoint: "https://u:" + canary + "@host/?" + canary})
	if err == nil || strings.Contains(err.Error(), canary) {
		t.Error(err)
	}
	t.Setenv("AWS_PROFILE", "none")
	if _, _, err := Open(t.Context(), "s3://b/", Options{}); !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
}

// TestRedirectKeepsCredentials: another host does not get the credentials for the first one.
func TestRedirectKeepsCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		s := newWire(t, func(w http.ResponseWriter, r *http.Request) {
			seen = append(seen, r.Host+" "+r.Header.Get("Authorization")+" "+r.URL.RawQuery+" "+r.Header.Get("Referer")+" "+r.Header.Get("Range")+r.Header.Get("If-Match"))
			switch {
			case r.Host == "host" && r.URL.Path == "/a":
				headers302("/b")(w, r)
			case r.Host == "host":
				headers302("http://user:p@other/c")(w, r)
			default:
				serve(w, r)
			}
		}).open(t, "http://user:p@host/a?sig=1", Options{})
		testkit.Must(t, read(t, s, 0, 10))
		want := "host Basic dXNlcjpw sig=1  bytes=0-9\"v1\"\nhost Basic dXNlcjpw   bytes=0-9\"v1\"\nother    bytes=0-9\"v1\""
		if got := strings.Join(seen, "\n"); got != want {
			t.Errorf("requests:\n%s", got)
		}
	})
	r, _ := http.NewRequest(http.MethodGet, "https://host/", nil)
	if _, err := redirect(r, &http.Response{Header: http.Header{"Location": {"http://host/"}}}); !errors.Is(err, ErrAway) {
		t.Errorf("a redirection to a connection without encryption: %v", err)
	}
}

// TestExpired: credentials that are no longer accepted are renewed, once for a read.
func TestExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		valid := "2"
		w := newWire(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+valid {
				refuse(http.StatusBadRequest, "ExpiredToken")(w, r)
				return
			}
			serve(w, r)
		})
		s := w.open(t, "http://host/", Options{})
		fetched := 0
		if err := s.useBearer(t.Context(), "a test", func(context.Context) (string, time.Time, error) {
			fetched++
			return []string{"1", "2"}[min(fetched, 2)-1], time.Now().Add(time.Hour), nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := read(t, s, 0, 10); err != nil || fetched != 2 {
			t.Errorf("%v, %d tokens", err, fetched)
		}
		time.Sleep(time.Hour - tokenMargin) // of the bubble
		if err := read(t, s, 0, 10); err != nil || fetched != 3 {
			t.Errorf("near its end: %v, %d tokens", err, fetched)
		}
		valid = "none"
		if err := read(t, s, 0, 10); !errors.Is(err, ErrDenied) || fetched != 4 || !strings.Contains(err.Error(), "400 ExpiredToken, with credentials from a test") {
			t.Errorf("%v, %d tokens", err, fetched)
		}
	})
}

// TestTokenCannotBeHad: requests that wait for a token share one attempt, and can stop waiting.
func TestTokenCannotBeHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, fetched := make(chan struct{}), 0
		b := &bearer{source: "a test", fetch: func(context.Context) (string, time.Time, error) {
			fetched++
			<-release
			return "", time.Time{}, errors.New("no metadata at http://u:canary@169.254.169.254/?q=canary")
		}}
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error)
		for _, ctx := range []context.Context{ctx, t.Context(), t.Context()} {
			go func() { errs <- b.sign(ctx, &http.Request{Header: http.Header{}}, false) }()
		}
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(release)
		for range 2 {
			if err := <-errs; !errors.Is(err, ErrDenied) || strings.Contains(err.Error(), canary[:6]) || !strings.Contains(err.Error(), "a test: no metadata at http://169.254.169.254/") {
				t.Error(err)
			}
		}
		if fetched != 1 {
			t.Errorf("%d attempts", fetched)
		}
	})
}

// serviceAccount has Google's library find the key of an account whose tokens are at a URL.
func serviceAccount(t *testing.T, tokens string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	testkit.Must(t, err)
	file := filepath.Join(t.TempDir(), "key.json")
	text, _ := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@b", "project_id": "p", "private_key_id": "1", "token_uri": tokens,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
	})
	testkit.Must(t, os.WriteFile(file, text, 0o600))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
}

// TestGoogleCredentials: the key of a service account becomes a token.
func TestGoogleCredentials(t *testing.T) {
	google := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"granted","token_type":"Bearer","expires_in":3600}`)
	}))
	defer google.Close()
	serviceAccount(t, google.URL)
	w := newWire(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer granted" || r.Header.Get("X-Goog-User-Project") != "p" || r.URL.Path != "/bucket/a" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		serve(w, r)
	})
	s := w.open(t, "gs://bucket/", Options{Endpoint: "http://host", RequesterPays: true})
	if err := read(t, s, 0, 10); err != nil {
		t.Error(err)
	}
}

// TestProxyPassword: an address of a proxy that is wrong is shown without its password.
func TestProxyPassword(t *testing.T) {
	s := newWire(t, serve).open(t, "http://host/", Options{Wait: -1})
	s.pool.dial = func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New(`proxyconnect tcp: invalid address "http://user:` + canary + `@proxy"`)
	}
	if _, err := s.Stat(t.Context(), "a"); !errors.Is(err, ErrAway) || strings.Contains(err.Error(), canary) {
		t.Error(err)
	}
}

// TestOpenEnds: looking for credentials does not outlive its context.
func TestOpenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, hang)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, _, err := Open(ctx, "hf://datasets/o/d/x", Options{Endpoint: "http://hub", dial: w.dial}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	noAWSKeys(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Open(ctx, "s3://b/", Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

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
