package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// Tests against real servers, which scripts/servers.sh installs.

// start runs a server until the end of the test. It waits for its first answer.
func start(t *testing.T, place string, o Options, path string, arguments ...string) {
	t.Helper()
	ended := testkit.StartServer(t, path, arguments...)
	for answered := false; !answered; {
		select {
		case <-ended:
			t.Fatal("the server has ended")
		default:
		}
		s, _, err := Open(t.Context(), place, o)
		testkit.Must(t, err)
		_, err = s.Stat(t.Context(), "none") // waits between its tries
		answered = !errors.Is(err, ErrAway) && !errors.Is(err, ErrBusy)
		s.Close()
	}
}

func send(ctx context.Context, s *site, make func() (*http.Request, error)) error {
	return s.do(ctx, &call{
		url: s.shown,
		ask: func(ctx context.Context) (*http.Request, error) {
			r, err := make()
			if err != nil {
				return nil, err
			}
			return r.WithContext(ctx), nil
		},
		use: func(answer *http.Response) error {
			if answer.StatusCode/100 == 2 {
				return nil
			}
			text, _ := io.ReadAll(answer.Body)
			return fmt.Errorf("%s: %s", answer.Status, text)
		},
	})
}

func TestVersityGateway(t *testing.T) {
	path, dir := testkit.ServerBinary(t, "versitygw"), t.TempDir()
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "data", "bucket"), 0o755))
	socket := filepath.Join(dir, "s")
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	o := Options{Endpoint: "http://s3.test", dial: dialUnix(socket)}
	start(t, "s3://bucket/", o, path, "--port", socket, "--access", "AKIATEST", "--secret", "canary-secret", "--keep-alive", "--quiet", "posix", filepath.Join(dir, "data"))
	conform(t, "s3://bucket/", o, func(s *site, name string, content []byte) (*http.Request, error) {
		u := *s.base.Load()
		u.Path += name
		u.RawPath = escape(u.Path)
		r, err := http.NewRequest(http.MethodPut, u.String(), bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		credentials, err := s.signer.(*awsSigner).credentials.Retrieve(t.Context())
		if err != nil {
			return nil, err
		}
		r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		return r, s.signer.(*awsSigner).v4.SignHTTP(t.Context(), credentials, r, "UNSIGNED-PAYLOAD", "s3", "us-east-1", time.Now())
	})
	t.Run("pages", func(t *testing.T) { // of 1,000, in the order of bytes: '.' is before '/'
		var want []string
		for i := range 505 {
			want = append(want, fmt.Sprintf("many/%04d.x", i), fmt.Sprintf("many/%04d/x", i))
			for _, name := range want[2*i:] {
				file := filepath.Join(dir, "data", "bucket", name)
				testkit.Must(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)))
			}
		}
		s, prefix, err := Open(t.Context(), "s3://bucket/many/", o)
		testkit.Must(t, err)
		defer s.Close()
		var got []string
		if err := s.List(t.Context(), prefix, func(o Object) error { got = append(got, o.Name); return nil }); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d objects, %v", len(got), err)
		}
	})
	t.Run("wrong key", func(t *testing.T) {
		t.Setenv("AWS_SECRET_ACCESS_KEY", "another-canary")
		s, name, err := Open(t.Context(), "s3://bucket/a/1.jpg", o)
		testkit.Must(t, err)
		defer s.Close()
		_, err = s.Stat(t.Context(), name)
		if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "SignatureDoesNotMatch, with credentials from EnvConfigCredentials") {
			t.Errorf("error %v", err)
		}
	})
}

func TestFakeGCSServer(t *testing.T) {
	t.Parallel()
	path, dir, port := testkit.ServerBinary(t, "fake-gcs-server"), t.TempDir(), freePort(t)
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "bucket"), 0o755))
	o := Options{Endpoint: "http://127.0.0.1:" + port, Anonymous: true}
	start(t, "gs://bucket/", o, path, "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-public-host", "127.0.0.1:"+port, "-backend", "memory", "-data", dir)
	conform(t, "gs://bucket/", o, func(s *site, name string, content []byte) (*http.Request, error) {
		u := s.base.Load().ResolveReference(&url.URL{Path: "/upload/storage/v1/b/bucket/o", RawQuery: url.Values{"uploadType": {"media"}, "name": {name}}.Encode()})
		return http.NewRequest(http.MethodPost, u.String(), bytes.NewReader(content))
	})
}

func TestAzurite(t *testing.T) {
	t.Parallel()
	path, port := testkit.ServerBinary(t, "azurite/node_modules/.bin/azurite-blob"), freePort(t)
	o := Options{Endpoint: "http://127.0.0.1:" + port + "/devstoreaccount1", Signature: azuriteToken}
	start(t, "az://container/", o, path, "--blobPort", port, "--inMemoryPersistence", "--silent", "--disableTelemetry")
	change := func(s *site, name, query string, content []byte) (*http.Request, error) {
		r := s.request(t.Context(), s.base.Load(), name, nil)
		r.Method, r.URL.RawQuery = http.MethodPut, r.URL.RawQuery+query
		r.Header.Set("X-Ms-Blob-Type", "BlockBlob")
		if r.Body = http.NoBody; len(content) > 0 {
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
		}
		return r, nil
	}
	s, _, err := Open(t.Context(), "az://container@ignored/", o)
	testkit.Must(t, err)
	defer s.Close()
	testkit.Must(t, send(t.Context(), s.(*site), func() (*http.Request, error) { return change(s.(*site), "", "&restype=container", nil) }))
	conform(t, "az://container/", o, func(s *site, name string, content []byte) (*http.Request, error) {
		return change(s, name, "", content)
	})
	o.Signature = strings.Replace(o.Signature, "sig=", "sig=canary", 1)
	s, _, err = Open(t.Context(), "az://container/", o)
	testkit.Must(t, err)
	defer s.Close()
	_, err = s.Stat(t.Context(), "a.txt")
	if !errors.Is(err, ErrDenied) || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "AuthorizationFailure") {
		t.Errorf("a wrong signature: %v", err)
	}
}

// azuriteToken is a shared access signature for the account that Azurite has, whose key is public.
const azuriteToken = "sv=2020-12-06&ss=b&srt=sco&sp=rwlac&se=2199-01-01T00:00:00Z&sig=9xPCdcIJUd68wIKDfaH0kzRA72uP%2BptWpDSb1Cok9H4%3D"

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	testkit.Must(t, err)
	return port
}

// conform tests a store against what its documentation promises.
func conform(t *testing.T, place string, o Options, put func(s *site, name string, content []byte) (*http.Request, error)) {
	t.Helper()
	ctx := t.Context()
	opened, _, err := Open(ctx, place, o)
	testkit.Must(t, err)
	defer opened.Close()
	s := opened.(*site)
	store := func(name string, content string) {
		t.Helper()
		if err := send(ctx, s, func() (*http.Request, error) { return put(s, name, []byte(content)) }); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	want := map[string]string{}
	for _, name := range []string{"a/1.jpg", "a/10.jpg", "a/2 b+c%41&d=?#ü.jpg", "a.txt", "b/empty"} {
		want[name] = strings.Repeat(name, 1000)
		if name == "b/empty" {
			want[name] = ""
		}
		store(name, want[name])
	}
	var names []string
	listed := map[string]Object{}
	if err := s.List(ctx, "a", func(o Object) error {
		names, listed[o.Name] = append(names, o.Name), o
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names, " | "); got != "a.txt | a/1.jpg | a/10.jpg | a/2 b+c%41&d=?#ü.jpg" {
		t.Errorf("listed %s", got)
	}
	for name, content := range want {
		o, err := s.Stat(ctx, name)
		testkit.Must(t, err)
		if l, found := listed[name]; found && l != o {
			t.Errorf("listed as %+v, which is %+v", l, o)
		}
		if o.Size != int64(len(content)) || o.Size > 0 && (o.Version == "" || o.ModTime == 0) {
			t.Errorf("%+v", o)
		}
		for _, part := range [][2]int{{0, len(content)}, {0, 1}, {7, 100}, {len(content) - 5, len(content)}} {
			if part[0] < 0 || part[1] > len(content) {
				continue
			}
			p := make([]byte, part[1]-part[0])
			if n, err := s.ReadAt(ctx, o, p, int64(part[0])); n != len(p) || err != nil || string(p) != content[part[0]:part[1]] {
				t.Errorf("%s %v: %d, %v", name, part, n, err)
			}
		}
	}
	if _, err := s.Stat(ctx, "a/none"); !errors.Is(err, ErrNotExist) {
		t.Errorf("what does not exist: %v", err)
	}
	store("a/1.jpg", strings.Repeat("another", 1000)) // as long as before
	if _, err := s.ReadAt(ctx, listed["a/1.jpg"], make([]byte, 10), 0); !errors.Is(err, ErrChanged) {
		t.Errorf("what has changed: %v", err)
	}
	if err := s.List(ctx, "", func(Object) error { return io.EOF }); err != io.EOF {
		t.Errorf("a list that is not wanted any more: %v", err)
	}
}
