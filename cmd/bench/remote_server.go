package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/batchfs/batchfs/internal/fakestore"
)

// The object store of these measurements is a process of its own: this program, started again. It shares the machine with
// what is measured.

// control is the path of requests to the server itself; no bucket has that name.
const control = "/-/"

// Credentials that every client finds in its environment.
const storeKey, storeSecret = "AKIABENCH", "bench-secret"

// A slowStore is a store that answers each request late, and counts.
type slowStore struct {
	behind          http.Handler
	delay           atomic.Int64 // a time.Duration
	requests, bytes atomic.Int64
}

// ServeHTTP implements http.Handler. A delay is a timer, and holds back nothing but its own request.
func (s *slowStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == control {
		if delay, err := time.ParseDuration(r.FormValue("delay")); err == nil {
			s.delay.Store(int64(delay))
		}
		_ = json.NewEncoder(w).Encode(traffic{s.requests.Load(), s.bytes.Load()})
		return
	}
	s.requests.Add(1)
	time.Sleep(time.Duration(s.delay.Load()))
	s.behind.ServeHTTP(&countedWriter{ResponseWriter: w, server: s, method: r.Method}, r)
}

// A countedWriter counts the bytes of an answer's body from its header, so that the kernel can send the file.
type countedWriter struct {
	http.ResponseWriter
	server *slowStore
	method string
}

func (w *countedWriter) WriteHeader(status int) {
	if size, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64); err == nil && w.method == http.MethodGet {
		w.server.bytes.Add(size)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *countedWriter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(w.ResponseWriter, r)
}

// Unwrap lets a proxy flush.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// serveStore serves the directories below a directory as buckets until standard input ends. It prints its URL. gateway is
// the binary of VersityGW, which is put behind it, or empty.
func serveStore(dir, gateway string) error {
	s := slowStore{behind: &fakestore.Server{Dir: dir, PerPage: 1000}}
	if gateway != "" {
		cmd, proxy, err := startGateway(dir, gateway)
		if err != nil {
			return err
		}
		defer cmd.Process.Kill()
		s.behind = proxy
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	go func() { _ = http.Serve(l, &s) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startGateway starts VersityGW on a socket in a directory.
func startGateway(dir, gateway string) (*exec.Cmd, http.Handler, error) {
	socket := filepath.Join(filepath.Dir(dir), "gateway")
	cmd := exec.Command(gateway, "--port", socket, "--access", storeKey, "--secret", storeSecret, "--keep-alive", "--quiet", "posix", dir)
	cmd.Stderr, cmd.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	var d net.Dialer
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "gateway"
			r.Out.Host = r.In.Host // it is signed
		},
		ErrorLog: log.New(io.Discard, "", 0), // of clients that do not wait
		Transport: &http.Transport{
			DialContext:  func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) },
			MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, DisableCompression: true,
		},
	}
	return cmd, proxy, nil
}

// An objectStore is a server that runs, with the photos in its one bucket.
type objectStore struct {
	endpoint string // its URL
	bucket   string
	dir      string // has the same files as the bucket
	cmd      *exec.Cmd
	in       io.Closer // ends it
}

// traffic is what a server has answered so far: requests, and bytes of the bodies of GET.
type traffic struct{ Requests, Bytes int64 }

// remoteStore starts the server, once, and puts the photos into its bucket, as photo/CLASS/NAME and in photo.tar. What is
// started afterwards finds its credentials in the environment.
func (s *setup) remoteStore(ctx context.Context) (*objectStore, error) {
	if s.store != nil {
		return s.store, nil
	}
	root := filepath.Join(s.work, "store")
	o := &objectStore{bucket: "bucket", dir: filepath.Join(root, "bucket")}
	if err := fillBucket(&s.photos, o.dir); err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": storeKey, "AWS_SECRET_ACCESS_KEY": storeSecret, "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o.cmd = exec.CommandContext(ctx, self, "-serve", root, "-gateway", s.gateway)
	o.cmd.Stderr = os.Stderr
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // not interrupted at a terminal: daemons end first
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := o.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := fmt.Fscanln(out, &o.endpoint); err != nil {
		return nil, errors.Join(fmt.Errorf("the object store did not start: %w", err), o.close())
	}
	s.store = o
	return o, nil
}

// close ends the server.
func (o *objectStore) close() error {
	o.in.Close()
	return o.cmd.Wait()
}

// url is where a name in the bucket is, for batchfs.
func (o *objectStore) url(name string) string { return "s3://" + o.bucket + "/" + name }

// flags are those of a command that reads it.
func (o *objectStore) flags(more ...string) []string {
	return append([]string{"--endpoint", o.endpoint}, more...)
}

// setDelay makes it answer each request so much later.
func (o *objectStore) setDelay(ctx context.Context, delay time.Duration) error {
	_, err := o.ask(ctx, url.Values{"delay": {delay.String()}})
	return err
}

// count returns its traffic so far.
func (o *objectStore) count(ctx context.Context) (traffic, error) { return o.ask(ctx, nil) }

func (o *objectStore) ask(ctx context.Context, values url.Values) (t traffic, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.endpoint+control+"?"+values.Encode(), nil)
	if err != nil {
		return t, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return t, err
	}
	defer answer.Body.Close()
	return t, json.NewDecoder(answer.Body).Decode(&t)
}

// endStore ends the server if one was started.
func (s *setup) endStore() {
	if s.store != nil {
		_ = s.store.close()
	}
}
