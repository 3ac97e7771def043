package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/store"
)

// write writes files, by their paths in a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		save(t, filepath.Join(dir, name), content)
	}
}

// save writes a file, and makes its directory.
func save[T string | []byte](t *testing.T, path string, content T) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err = errors.Join(err, os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestMountIsNoDataset: a mount of batchfs is refused as DATASET, by that reason.
func TestMountIsNoDataset(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{".batchfs/config.json": `{"dataset":"/data/photos"}`, "shard-0/epoch-0/batch-00000.json": "{}"})
	for _, path := range []string{dir, filepath.Join(dir, "shard-0")} {
		got := batchfs(t, "index", path)
		if !strings.Contains(got.err, "no images found") || !strings.Contains(got.err, dir+" is a mount of batchfs; name the dataset that it serves, /data/photos") {
			t.Errorf("%s: %s", path, got.err)
		}
	}
	if got := batchfs(t, "index", t.TempDir()); strings.Contains(got.err, "mount of batchfs") {
		t.Error(got.err)
	}
}

// TestStoreAway: if a store cannot serve a dataset, the message says why, and what to do.
func TestStoreAway(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	answers := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(s.Close)
		return s.URL
	}
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0) // it says that the handshake failed
	t.Cleanup(untrusted.Close)
	for url, want := range map[string][2]string{
		away.URL:                               {"cannot be reached", "--endpoint"},
		answers(http.StatusServiceUnavailable): {"now: 503", "try again later"},
		answers(http.StatusMethodNotAllowed):   {"parts of objects: 405", "copy the dataset"},
		untrusted.URL:                          {"not trusted", "SSL_CERT_FILE"},
	} {
		for _, command := range []string{"index", "verify", "index --targets text", "index --targets masks --annotations " + url + "/a.json"} {
			got := batchfs(t, append(strings.Fields(command), url+"/p.tar", "--storage-wait", "100ms")...)
			if got.status != statusFailed || !strings.Contains(got.err, want[0]) || !strings.Contains(got.err, want[1]) {
				t.Errorf("%s: want %q, got %+v", command, want, got)
			}
		}
	}
	t.Setenv("https_proxy", "http://user:se%cret@proxy:3128")
	if got := batchfs(t, "index", away.URL+"/p.tar"); got.status != statusUsage || !strings.Contains(got.err, "https_proxy must be the URL of a proxy") || strings.Contains(got.err, "cret") {
		t.Errorf("%+v", got)
	}
}

// TestDenied: if a store denies access, the message says so once, and what to do about it.
func TestDenied(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "sig=1")
	denies := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer denies.Close()
	for args, want := range map[string]string{
		"s3://bucket/x.tar":              "AWS_PROFILE",
		"s3://bucket/x.tar --anonymous":  "leave out --anonymous",
		"s3://bucket/photos/":            "AWS_PROFILE",
		"gs://bucket/x.tar --anonymous":  "leave out --anonymous",
		"az://c/x.tar":                   "AZURE_STORAGE_SAS_TOKEN",
		"hf://datasets/org/cats/x.tar":   "HF_TOKEN",
		denies.URL + "/x.tar":            "https://USER:PASSWORD@HOST/",
		"S3://bucket/x.tar --region x-1": "AWS_PROFILE",
	} {
		got := batchfs(t, append([]string{"index", "--endpoint", denies.URL}, strings.Fields(args)...)...)
		message, hint, _ := strings.Cut(got.err, "\nbatchfs: hint: ")
		if strings.HasSuffix(args, "/") && !strings.Contains(message, args+": access") {
			t.Errorf("%s: the folder is not named: %s", args, message)
		}
		if got.status != statusFailed || strings.Count(message, "access denied: 403, with") != 1 || strings.Contains(message, "\n") || !strings.Contains(hint, want) {
			t.Errorf("%s: status %d, %s", args, got.status, got.err)
		}
	}
}

// TestWholeObjects: whatever a server does instead of serving a part of an object, the hint is
// about the server, not about what is mounted on this machine.
func TestWholeObjects(t *testing.T) {
	for how, answer := range map[string]http.HandlerFunc{
		"with the whole object": func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "all of it") },
		"it compresses": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "bytes=0-0" { // it shows its size, and the first byte
				w.Header().Set("Content-Encoding", "gzip")
			}
			http.ServeContent(w, r, "x.tar", time.Time{}, strings.NewReader(strings.Repeat("x", 1<<20)))
		},
	} {
		server := httptest.NewServer(answer)
		got := batchfs(t, "index", server.URL+"/x.tar")
		server.Close()
		if got.status != statusFailed || !strings.Contains(got.err, how) || !strings.Contains(got.err, "\nbatchfs: hint: "+wholeObjects) {
			t.Errorf("%s: status %d, %s", how, got.status, got.err)
		}
	}
	if err := fmt.Errorf("x.tar: %w", store.ErrNoRange); remedy(err) != wholeObjects {
		t.Errorf("an open advises %q", remedy(err))
	}
}

// TestSecretsStayInside: secrets that a URL or the environment has for a server are in nothing that
// batchfs writes.
func TestSecretsStayInside(t *testing.T) {
	const secret = "CANARY123"
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	var asked atomic.Bool
	denies := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(true)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer denies.Close()
	host := strings.TrimPrefix(denies.URL, "http://")
	for _, args := range [][]string{
		{"index", "http://user:" + secret + "@" + host + "/x.tar"}, {"index", denies.URL + "/x.tar?signature=" + secret},
		{"verify", "http://user:" + secret + "@" + host + "/x.csv"}, {"index", "s3://bucket/x.tar", "--endpoint", denies.URL, "--region", "us-east-1"},
		{"mount", denies.URL + "/x.parquet?signature=" + secret, t.TempDir()},
	} {
		asked.Store(false)
		if got := batchfs(t, args...); got.status != statusFailed || strings.Contains(got.out+got.err, secret) || !asked.Load() {
			t.Errorf("%q: asked %v, status %d, %s %s", args, asked.Load(), got.status, got.out, got.err)
		}
	}
}

// TestSummaryGoesWhereItIsSeen: the summary goes to standard error, and to a log, unless one of
// them would then get two kinds of lines.
func TestSummaryGoesWhereItIsSeen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	for _, test := range []struct {
		o         logOptions
		err, file string
	}{
		{logOptions{}, "batchfs: 5 images\n", ""},
		{logOptions{asJSON: true}, `"msg":"5 images"}` + "\n", ""},
		{logOptions{file: file}, "batchfs: 5 images\n", `msg="5 images"` + "\n"},
		{logOptions{file: file, asJSON: true}, "batchfs: 5 images\n", `"msg":"5 images"}` + "\n"},
	} {
		_ = os.Remove(file)
		got := logged(t, test.o, func(l *mountLog) { l.tell(slog.LevelInfo, "5 images", "") })
		text, _ := os.ReadFile(file)
		if !strings.HasSuffix(got, test.err) || strings.Count(got, "\n") != 1 || !strings.HasSuffix(string(text), test.file) || test.file == "" && len(text) > 0 {
			t.Errorf("%+v: %q, and the log %q", test.o, got, text)
		}
	}
}

// TestUselessLabels: where only the labels of an archive are of no use, the hint is about them.
func TestUselessLabels(t *testing.T) {
	const archives = "../../internal/archive/testdata/"
	for _, args := range [][]string{
		{archives + "fraction.parquet"}, {archives + "hf.parquet", "--label-column", "missing"}, {archives + "jpeg.mds", "--label-column", "weight"},
	} {
		got := batchfs(t, append([]string{"plan"}, args...)...)
		if got.status != statusFailed || !strings.Contains(got.err, "its labels cannot be used: ") || !strings.Contains(got.err, "\nbatchfs: hint: take labels from another column") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
