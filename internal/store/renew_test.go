package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/batchfs/batchfs/internal/testkit"
)

// grantor is a service that gives out credentials, the n-th ones first with n = 1.
func grantor(t *testing.T, text func(n int64) string) (*httptest.Server, *atomic.Int64) {
	var granted atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintln(w, text(granted.Add(1)))
	}))
	t.Cleanup(server.Close)
	return server, &granted
}

// expiring is a store whose credentials expire. The returned function makes it refuse all requests
// without a word in their header, and reads.
func expiring(t *testing.T, place, header string, status int, code string) (expect func(want string)) {
	valid := ""
	w := newWire(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get(header), valid) {
			refuse(status, code)(w, r)
			return
		}
		serve(w, r)
	})
	s := w.open(t, place, Options{Endpoint: "http://host"})
	return func(want string) {
		t.Helper()
		valid = want
		before := w.requests.Load()
		if err := read(t, s, 0, 10); err != nil {
			t.Errorf("with %s: %v", want, err)
		}
		if err := read(t, s, 0, 10); err != nil || w.requests.Load()-before > 3 {
			t.Errorf("with %s, again: %v after %d requests", want, err, w.requests.Load()-before)
		}
	}
}

// TestAWSRenews: wherever AWS's library gets credentials from, refused ones are replaced by the
// present ones.
func TestAWSRenews(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	shared := func(n int) {
		write("credentials", fmt.Sprintf("[default]\naws_access_key_id=K%d\naws_secret_access_key=s\naws_session_token=t%[1]d\n", n), 0o600)
	}
	container, granted := grantor(t, func(n int64) string {
		return fmt.Sprintf(`{"AccessKeyId":"K%d","SecretAccessKey":"s","Token":"t%[1]d","Expiration":"2199-01-01T00:00:00Z"}`, n)
	})
	script := write("process", `#!/bin/sh
echo >>$0.runs
n=$(wc -l <$0.runs)
echo '{"Version":1,"AccessKeyId":"K'$n'","SecretAccessKey":"s","SessionToken":"t'$n'","Expiration":"2199-01-01T00:00:00Z"}'
`, 0o700)
	for name, prepare := range map[string]func(t *testing.T) (next func(n int)){
		"a process": func(t *testing.T) func(int) {
			t.Setenv("AWS_CONFIG_FILE", write("config", "[default]\ncredential_process = "+script+"\n", 0o600))
			return func(int) {}
		},
		"a container's service": func(t *testing.T) func(int) {
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.URL)
			return func(int) {}
		},
		"a file that is replaced": func(t *testing.T) func(int) {
			shared(1)
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "credentials"))
			return shared
		},
	} {
		t.Run(name, func(t *testing.T) {
			noAWSKeys(t)
			granted.Store(0)
			next := prepare(t)
			expect := expiring(t, "s3://bucket/", "X-Amz-Security-Token", http.StatusBadRequest, "ExpiredToken")
			expect("t1")
			next(2)
			expect("t2")
			next(3)
			expect("t3")
		})
	}
}

// TestGoogleRenews: a token that is refused is replaced by a new one of the service account.
func TestGoogleRenews(t *testing.T) {
	tokens, _ := grantor(t, func(n int64) string {
		return fmt.Sprintf(`{"access_token":"t%d","token_type":"Bearer","expires_in":3600}`, n)
	})
	serviceAccount(t, tokens.URL)
	expect := expiring(t, "gs://bucket/", "Authorization", http.StatusUnauthorized, "AuthenticationRequired")
	expect("t1")
	expect("t2")
}

// TestAzureRenews: so is a token of a managed identity. Azure's library requests another one only
// if the present one is near its end.
func TestAzureRenews(t *testing.T) {
	tokens, _ := grantor(t, func(n int64) string {
		return fmt.Sprintf(`{"access_token":"t%d","token_type":"Bearer","resource":"x","expires_on":"%d"}`, n, time.Now().Add(time.Minute).Unix())
	})
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
	t.Setenv("IDENTITY_ENDPOINT", tokens.URL)
	t.Setenv("IDENTITY_HEADER", "x")
	expect := expiring(t, "az://c@account/", "Authorization", http.StatusUnauthorized, "InvalidAuthenticationInfo")
	expect("t1")
	expect("t2")
}

// TestTokenServesToItsEnd: a token is replaced before it ends. Without a replacement, it serves as
// long as it can.
func TestTokenServesToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetched, away := 0, error(nil)
		b := &bearer{source: "a test", fetch: func(context.Context) (string, time.Time, error) {
			fetched++
			return fmt.Sprint("t", fetched), time.Now().Add(time.Minute), away
		}}
		expect := func(after time.Duration, header string, fetches int) {
			t.Helper()
			time.Sleep(after) // of the bubble
			r := &http.Request{Header: http.Header{}}
			if err := b.sign(t.Context(), r, false); r.Header.Get("Authorization") != header || (err == nil) != (header != "") || fetched != fetches {
				t.Errorf("%q, %v, fetched %d times", r.Header.Get("Authorization"), err, fetched)
			}
		}
		expect(0, "Bearer t1", 1)
		expect(29*time.Second, "Bearer t1", 1)
		expect(2*time.Second, "Bearer t2", 2) // short-lived: after half of its life
		away = errors.New("away")
		expect(31*time.Second, "Bearer t2", 3)
		expect(5*time.Second, "Bearer t2", 3)
		expect(6*time.Second, "Bearer t2", 4)
		expect(20*time.Second, "", 5)
		away = nil
		expect(0, "Bearer t6", 6)
		b.renew("Bearer t6")
		away = errors.New("away")
		expect(0, "", 7) // what was refused does not serve any longer
	})
}

// TestNoCredentials: the lack of credentials is reported once, in one line.
func TestNoCredentials(t *testing.T) {
	dir := t.TempDir()
	noAWSKeys(t)
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
	for _, key := range []string{"AZURE_TENANT_ID", "AZURE_CLIENT_ID"} {
		t.Setenv(key, "")
	}
	failing := filepath.Join(dir, "config")
	text := "[profile broken]\ncredential_process = sh -c 'exit 3'\n"
	testkit.Must(t, os.WriteFile(failing, []byte(text), 0o600))
	for _, test := range []struct{ place, profile, want string }{
		{"s3://b/", "", "s3://b/: access denied: no credentials in the environment, the AWS configuration or the machine"},
		{"az://c@a/", "", "az://c@a/: access denied: no credentials in Azure's default credentials"},
		{"s3://b/", "broken", "exit status 3"},
		{"s3://b/", "missing", "the AWS configuration: failed to get shared config profile, missing"},
	} {
		t.Setenv("AWS_PROFILE", test.profile)
		if test.profile != "" {
			t.Setenv("AWS_CONFIG_FILE", failing)
		}
		_, _, err := Open(t.Context(), test.place, Options{})
		if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s: %v", test.place, test.profile, err)
		} else if test.profile == "" && err.Error() != test.want {
			t.Errorf("%s: %v", test.place, err)
		}
	}
}

// TestOneLine: what libraries say at length is cut off between characters.
func TestOneLine(t *testing.T) {
	said := errors.New("failed to refresh cached credentials, one:\n\t---\n\ttwo http://u:" + canary + "@h/?" + canary + " " + strings.Repeat("ä", longestReason))
	if got := oneLine(said); !strings.HasPrefix(got, "one: two http://h/ ä") || !strings.HasSuffix(got, "ä ...") || len(got) > longestReason+4 || !utf8.ValidString(got) {
		t.Errorf("%q", got)
	}
}
