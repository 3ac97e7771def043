package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Tests against real servers, which scripts/servers.sh installs.

// binary returns the path of an installed server, or skips the test.
func binary(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../bin/servers", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not installed; scripts/servers.sh does that", name)
	}
	return path
}

// start runs a server until the end of the test.
func start(t *testing.T, path string, arguments ...string) {
	t.Helper()
	c := exec.Command(path, arguments...)
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%s says:\n%s", path, output.Bytes())
		}
	})
}

// patient is enough tries for a server to start.
const patient = 200

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
	path, dir := binary(t, "versitygw"), t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "bucket"), 0o755); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	start(t, path, "--port", socket, "--access", "AKIATEST", "--secret", "canary-secret", "--keep-alive", "--quiet", "posix", filepath.Join(dir, "data"))
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	o := Options{Endpoint: "http://s3.test", Tries: patient, dial: dialUnix(socket)}
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
	t.Run("wrong key", func(t *testing.T) {
		t.Setenv("AWS_SECRET_ACCESS_KEY", "another-canary")
		s, name, err := Open(t.Context(), "s3://bucket/a/1.jpg", o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, err = s.Stat(t.Context(), name)
		if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "SignatureDoesNotMatch, with credentials from EnvConfigCredentials") {
			t.Errorf("error %v", err)
		}
	})
}

// conform tests a store against what its documentation promises.
func conform(t *testing.T, place string, o Options, put func(s *site, name string, content []byte) (*http.Request, error)) {
	t.Helper()
	ctx := t.Context()
	opened, _, err := Open(ctx, place, o)
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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
