package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// readCommand is what stands for a training program in demonstrations and
// benchmarks: a process of its own that opens batches in order and looks at
// every byte of them. It is hidden: users have their own programs.
func readCommand(c *console) *cli.Command {
	return command(cli.Command{
		Name:      "read",
		Hidden:    true,
		Usage:     "read epochs or files as a training program would, touching every byte",
		ArgsUsage: "EPOCH-DIRECTORY|FILE...",
		Description: "Opens the batches of each epoch's directory in order, or a file as often as --repeat says, and adds up every\n" +
			"byte, 8 at a time.",
		Flags: []cli.Flag{
			setting("", "how", "map", "`map|read`"),
			setting("", "form", "nhwc", "which `FORM` of the batches"),
			setting("", "batches", "0", "stop an epoch after `N` batches; 0: at its end"),
			setting("", "repeat", "1", "read a file `N` times"),
			jsonFlag("print one JSON object"),
		},
		Action: func(ctx *cli.Context) error {
			v := &flagValues{flags: ctx}
			o := readOptions{
				mapped: choice(v, "how", word("map"), word("read")) == "map", repeat: int(v.number("repeat", 1, 1<<30)),
				batches: int(v.number("batches", 0, 1<<30)),
			}
			if forms := v.forms("form"); len(forms) > 0 {
				o.form = forms[0]
			}
			if ctx.Args().Len() == 0 {
				v.refuse(usage("EPOCH-DIRECTORY is missing"))
			}
			if v.err != nil {
				return v.err
			}
			r, err := c.readAll(ctx.Context, ctx.Args().Slice(), o)
			if err != nil {
				return err
			}
			if v.on("json") {
				return writeJSON(c.out, r)
			}
			c.printf("%s in %.2f s: %.0f images/s, %s/s\n", count(r.Images, "image"), r.Seconds, r.ImagesPerSecond, formatBytes(int64(r.BytesPerSecond)))
			return nil
		},
	}, "batchfs read mnt/shard-0/epoch-0")
}

type readOptions struct {
	mapped  bool
	form    layout.Form
	batches int // of each epoch; 0: all
	repeat  int // of each file
}

// readReport is what the reading process tells. Seconds are from the first
// open to the last byte; FirstSeconds to the last byte of the first batch.
type readReport struct {
	Batches         int     `json:"batches"`
	Images          int64   `json:"images"`
	Bytes           int64   `json:"bytes"`
	Seconds         float64 `json:"seconds"`
	FirstSeconds    float64 `json:"first_seconds"`
	ImagesPerSecond float64 `json:"images_per_second"`
	BytesPerSecond  float64 `json:"bytes_per_second"`
	Sum             uint64  `json:"sum"` // of all words: keeps the reading from being optimised away, and differs when bytes do
}

// readJob is one file to read, and the images in it.
type readJob struct {
	path   string
	images int64
}

// readAll reads epochs and files and measures it.
func (c *console) readAll(ctx context.Context, paths []string, o readOptions) (readReport, error) {
	var r readReport
	jobs, images, err := readJobs(paths, o)
	if err != nil {
		return r, err
	}
	bar := c.progress("reading", "images")
	defer bar.close()
	reader := batchReader{mapped: o.mapped}
	defer reader.close()
	start := time.Now()
	for _, job := range jobs {
		if ctx.Err() != nil {
			return r, fmt.Errorf("interrupted after %s", count(r.Batches, "batch"))
		}
		size, sum, err := reader.read(job.path)
		if err != nil {
			return r, err
		}
		r.Batches++
		r.Images += job.images
		r.Bytes += size
		r.Sum += sum
		r.Seconds = time.Since(start).Seconds()
		if r.Batches == 1 {
			r.FirstSeconds = r.Seconds
		}
		bar.report(r.Images, images)
	}
	r.ImagesPerSecond = float64(r.Images) / max(r.Seconds, 1e-9)
	r.BytesPerSecond = float64(r.Bytes) / max(r.Seconds, 1e-9)
	return r, nil
}

// readJobs lists what there is to read before the clock starts.
func readJobs(paths []string, o readOptions) (jobs []readJob, images int64, err error) {
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(path, "epoch.json"))
		if errors.Is(err, unix.ENOTDIR) {
			for range o.repeat {
				jobs = append(jobs, readJob{path: path})
			}
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		epoch, err := epochJobs(path, text, o)
		if err != nil {
			return nil, 0, err
		}
		jobs = append(jobs, epoch...)
	}
	for _, job := range jobs {
		images += job.images
	}
	return jobs, images, nil
}

// epochJobs are the batches of one epoch. Their images are spread over them by
// what epoch.json says of the whole, to look at no other file.
func epochJobs(path string, text []byte, o readOptions) ([]readJob, error) {
	var epoch struct {
		Batches, Valid int64
	}
	if err := json.Unmarshal(text, &epoch); err != nil {
		return nil, fmt.Errorf("read %s/epoch.json: %w", path, err)
	}
	n := epoch.Batches
	if o.batches > 0 {
		n = min(n, int64(o.batches))
	}
	jobs := make([]readJob, n)
	for i := range n {
		jobs[i] = readJob{
			path:   filepath.Join(path, layout.BatchName(int(i))+"."+o.form.Ext()),
			images: epoch.Valid*(i+1)/epoch.Batches - epoch.Valid*i/epoch.Batches,
		}
	}
	return jobs, nil
}

// batchReader reads whole files, by map or into one buffer that it reuses. It
// asks the kernel itself: nothing of Go's file handling is measured.
type batchReader struct {
	mapped bool
	buffer []byte // mapped memory, for alignment and to stay off the heap
}

func (b *batchReader) close() {
	if b.buffer != nil {
		_ = unix.Munmap(b.buffer)
	}
}

// read looks at every byte of a file.
func (b *batchReader) read(path string) (size int64, sum uint64, err error) {
	fd, err := openUninterrupted(path)
	if err != nil {
		return 0, 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Size == 0 { // a partial batch may be empty
		return 0, 0, nil
	}
	look := b.look
	if b.mapped {
		look = lookMapped
	}
	if sum, err = look(fd, st.Size); err != nil {
		return 0, 0, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return st.Size, sum, nil
}

// openUninterrupted repeats an open that one of the Go runtime's own signals
// interrupted.
func openUninterrupted(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func lookMapped(fd int, size int64) (uint64, error) {
	data, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err == unix.ENODEV { // direct I/O on an older kernel maps privately only
		data, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_PRIVATE)
	}
	if err != nil {
		return 0, err
	}
	sum := sumWords(data)
	return sum, unix.Munmap(data)
}

// readChunk is how much one read asks for: large enough that the number of
// calls does not matter.
const readChunk = 16 << 20

func (b *batchReader) look(fd int, size int64) (sum uint64, err error) {
	if int64(len(b.buffer)) < size {
		b.close()
		if b.buffer, err = unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			return 0, err
		}
	}
	data := b.buffer[:size]
	for have := 0; have < len(data); {
		n, err := unix.Read(fd, data[have:min(have+readChunk, len(data))])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, fmt.Errorf("ends after %d of %d bytes", have, len(data))
		}
		have += max(n, 0)
	}
	return sumWords(data), nil
}

// sumWords adds up memory that begins at a page, 8 words at a time, which is
// as fast as one core reads memory.
func sumWords(data []byte) uint64 {
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/8)
	var a, b, c, d uint64
	for len(words) >= 8 {
		w := words[:8]
		a += w[0] + w[4]
		b += w[1] + w[5]
		c += w[2] + w[6]
		d += w[3] + w[7]
		words = words[8:]
	}
	for _, w := range words {
		a += w
	}
	for _, tail := range data[len(data)&^7:] {
		a += uint64(tail)
	}
	return a + b + c + d
}
