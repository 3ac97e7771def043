package main

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/md5"
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

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/fakestore"
)

// The object store of these measurements is a process of its own: this program, started again. It
// shares the machine with what is measured.

// control is the path of requests to the server itself; no bucket has that name.
const control = "/-/"

// Credentials that every client finds in its environment.
const storeKey, storeSecret = "AKIABENCH", "bench-secret"

// traffic is what a server has answered: requests, and bytes of the bodies of GET.
type traffic struct{ Requests, Bytes int64 }

// A slowStore is a store that answers each request late, and counts.
type slowStore struct {
	behind          http.Handler
	delay           atomic.Int64 // a time.Duration
	requests, bytes atomic.Int64
}

// ServeHTTP implements http.Handler. A delay is a timer, and holds back nothing but its own
// request.
func (s *slowStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == control {
		if delay, err := time.ParseDuration(r.FormValue("delay")); err == nil {
			s.delay.Store(int64(delay))
		}
		if r.FormValue("forget") != "" {
			s.requests.Store(0)
			s.bytes.Store(0)
		}
		_ = json.NewEncoder(w).Encode(traffic{s.requests.Load(), s.bytes.Load()})
		return
	}
	s.requests.Add(1)
	time.Sleep(time.Duration(s.delay.Load()))
	s.behind.ServeHTTP(w, r)
	if size, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64); err == nil && r.Method == http.MethodGet {
		s.bytes.Add(size)
	}
}

// serveStore serves the directories below a directory as buckets until standard input ends. It
// prints its URL. gateway is the binary of VersityGW, which is put behind it, or empty.
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
	cmd := exec.Command(gateway, "--port", socket, "--access", storeKey, "--secret", storeSecret,
		"--keep-alive", "--quiet", "posix", dir)
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
}

// indexed starts the server until the end of the scenario, and makes an index of names in it. What
// is started afterwards finds its credentials in the environment.
func (b *bench) indexed(ctx context.Context, list ...string) (*objectStore, error) {
	root := filepath.Join(b.work, "store")
	o := &objectStore{bucket: "bucket", dir: filepath.Join(root, "bucket")}
	if _, err := os.Stat(o.dir); err != nil {
		if err := fillBucket(&b.photos, o.dir); err != nil {
			return nil, err
		}
	}
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": storeKey, "AWS_SECRET_ACCESS_KEY": storeSecret,
		"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	if err := startStore(ctx, b, o, root); err != nil {
		return nil, fmt.Errorf("the object store did not start: %w", err)
	}
	for _, name := range list {
		b.progress.step("index of "+name, 0, 1)
		if _, err := b.command(ctx, append([]string{"index", o.url(name)}, o.flags()...)...); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func startStore(ctx context.Context, b *bench, o *objectStore, root string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.cmd = exec.CommandContext(ctx, self, "-serve", root, "-gateway", b.gateway)
	o.cmd.Stderr = os.Stderr
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // not interrupted at a terminal: daemons end first
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	in, err := o.cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := o.cmd.Start(); err != nil {
		return err
	}
	b.later(func() error {
		in.Close() // which ends it
		return o.cmd.Wait()
	})
	_, err = fmt.Fscanln(out, &o.endpoint)
	return err
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

// forget has it count from 0.
func (o *objectStore) forget(ctx context.Context) error {
	_, err := o.ask(ctx, url.Values{"forget": {"all"}})
	return err
}

// count returns its traffic so far.
func (o *objectStore) count(ctx context.Context) (traffic, error) { return o.ask(ctx, nil) }

// idle waits until nothing asks it any more, and returns the traffic so far.
func (o *objectStore) idle(ctx context.Context) (now traffic, err error) {
	for before := (traffic{-1, 0}); now != before && err == nil; {
		time.Sleep(5 * longest)
		before = now
		now, err = o.count(ctx)
	}
	return now, err
}

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

// fillBucket makes a bucket of a dataset's files: links to them, so that the page cache has each of
// them once, and a tar of them.
func fillBucket(p *pictures, bucket string) error {
	if err := os.MkdirAll(bucket, 0o755); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(bucket, p.kind+".tar"))
	if err != nil {
		return err
	}
	defer out.Close()
	buffered := bufio.NewWriterSize(out, 1<<20)
	w := tar.NewWriter(buffered)
	for i, file := range p.files {
		if err := putSample(w, filepath.Join(bucket, p.kind, p.Path(i)), p.Path(i), file); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), buffered.Flush(), tagObject(out.Name(), nil), out.Close())
}

// putSample puts one file into the bucket and the tar.
func putSample(w *tar.Writer, object, name, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	err = errors.Join(os.MkdirAll(filepath.Dir(object), 0o755), os.Link(file, object), tagObject(object, content))
	if err != nil {
		return err
	}
	err = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write(content)
	}
	return err
}

// tagObject gives a file the ETag that VersityGW would have given it when it was uploaded.
func tagObject(path string, content []byte) error {
	return unix.Setxattr(path, "user.etag", fmt.Appendf(nil, `"%x"`, md5.Sum(content)), 0)
}
