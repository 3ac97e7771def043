package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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

// traffic is what a server has answered: requests, and bytes of the bodies of GET.
type traffic struct{ requests, bytes int64 }

// serveStore serves the directories below a directory as buckets until standard input ends. It
// prints its URL. Each line of its input is a delay: from then on, it answers every request that
// much later, and it prints its traffic since the line before. A delay is a timer, and holds back
// nothing but its own request.
func serveStore(dir string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	var delay time.Duration
	var now, sent atomic.Int64
	store := &fakestore.Server{Dir: dir, PerPage: 1000}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Duration(now.Load()))
			store.ServeHTTP(w, r)
			if size, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64); err == nil && r.Method == http.MethodGet {
				sent.Add(size)
			}
		}))
	}()
	for {
		if _, err := fmt.Scan(&delay); err != nil {
			return nil // it has ended
		}
		now.Store(int64(delay))
		fmt.Println(store.Requests.Swap(0), sent.Swap(0))
	}
}

// An objectStore is a server that runs, with the photos in its one bucket.
type objectStore struct {
	endpoint string // its URL
	bucket   string
	dir      string // has the same files as the bucket
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Reader
}

// indexed starts the server until the end of the scenario, and makes an index of names in it.
// Programs that are started afterwards find its credentials in the environment.
func (b *bench) indexed(list ...string) *objectStore {
	root := filepath.Join(b.work, "store")
	o := &objectStore{bucket: "bucket", dir: filepath.Join(root, "bucket")}
	if _, err := os.Stat(o.dir); err != nil {
		check(fillBucket(b.photos(), o.dir))
	}
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIABENCH", "AWS_SECRET_ACCESS_KEY": "bench-secret",
		"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		check(os.Setenv(name, value))
	}
	o.cmd = exec.CommandContext(b.ctx, must(os.Executable()), "-serve", root)
	o.cmd.Stderr = os.Stderr
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // not interrupted at a terminal: daemons end first
	o.in, o.out = must(o.cmd.StdinPipe()), bufio.NewReader(must(o.cmd.StdoutPipe()))
	check(o.cmd.Start())
	b.later(func() error {
		o.in.Close() // which ends it
		return o.cmd.Wait()
	})
	if _, err := fmt.Fscanln(o.out, &o.endpoint); err != nil {
		check(fmt.Errorf("the object store did not start: %w", err))
	}
	for _, name := range list {
		b.command(append([]string{"index", o.url(name)}, o.flags()...)...)
	}
	return o
}

// url is where a name in the bucket is, for batchfs.
func (o *objectStore) url(name string) string { return "s3://" + o.bucket + "/" + name }

// flags are the flags of a command that reads the store.
func (o *objectStore) flags(more ...string) []string {
	return append([]string{"--endpoint", o.endpoint}, more...)
}

// ask makes it answer each request later from now on, by a delay, and returns its traffic since the
// last call.
func (o *objectStore) ask(delay time.Duration) (t traffic) {
	must(fmt.Fprintln(o.in, int64(delay)))
	must(fmt.Fscanln(o.out, &t.requests, &t.bytes))
	return t
}

// idle waits until no more requests come, and returns the traffic until then.
func (o *objectStore) idle(delay time.Duration) (all traffic) {
	for range 100 {
		time.Sleep(5 * longest)
		more := o.ask(delay)
		if more == (traffic{}) {
			return all
		}
		all = traffic{all.requests + more.requests, all.bytes + more.bytes}
	}
	check(errors.New("requests to the object store go on though nothing is read"))
	return all
}

// fillBucket makes a bucket of a dataset's files: links to them, so that the page cache has each
// file once, and a tar of them.
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
