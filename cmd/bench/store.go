package main

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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

// The object store of these measurements is a process of its own: this program, started again. It
// shares the machine with what is measured.

// control is the path of requests to the server itself; no bucket has that name.
const control = "/-/"

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
// prints its URL.
func serveStore(dir string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	s := &slowStore{behind: &fakestore.Server{Dir: dir, PerPage: 1000}}
	go func() { _ = http.Serve(l, s) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
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
		"AWS_ACCESS_KEY_ID": "AKIABENCH", "AWS_SECRET_ACCESS_KEY": "bench-secret",
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
	o.cmd = exec.CommandContext(ctx, self, "-serve", root)
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
	folder := filepath.Join(bucket, p.kind)
	for i, file := range p.files {
		object := filepath.Join(folder, p.Path(i))
		if err := errors.Join(os.MkdirAll(filepath.Dir(object), 0o755), os.Link(file, object)); err != nil {
			return err
		}
	}
	out, err := os.Create(folder + ".tar")
	if err != nil {
		return err
	}
	defer out.Close()
	buffered := bufio.NewWriterSize(out, 1<<20)
	w := tar.NewWriter(buffered)
	return errors.Join(w.AddFS(os.DirFS(folder)), w.Close(), buffered.Flush(), out.Close())
}
