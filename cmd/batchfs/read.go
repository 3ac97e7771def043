package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// readCommand stands in for a training program in demonstrations and benchmarks: its own
// process that opens batches in order and reads every byte. It is hidden: users have their
// own programs.
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
			return show(c.out, r, v.on("json"))
		},
	}, "batchfs read mnt/shard-0/epoch-0")
}

type readOptions struct {
	mapped  bool
	form    layout.Form
	batches int // of each epoch; 0: all
	repeat  int // of each file
}

// readReport is the output of the reading process. Seconds run from the first open to the
// last byte, FirstSeconds to the last byte of the first batch.
type readReport struct {
	Batches         int     `json:"batches"`
	Images          int64   `json:"images"`
	Bytes           int64   `json:"bytes"`
	Seconds         float64 `json:"seconds"`
	FirstSeconds    float64 `json:"first_seconds"`
	ImagesPerSecond float64 `json:"images_per_second"`
	BytesPerSecond  float64 `json:"bytes_per_second"`
	Sum             uint64  `json:"sum"` // of all words: keeps the reads from being optimized away, and differs if the bytes do
}

func (r readReport) print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s in %.2f s: %.0f images/s, %s/s\n", count(r.Images, "image"), r.Seconds, r.ImagesPerSecond, formatBytes(int64(r.BytesPerSecond)))
	return err
}

// readJob is one file to read and the number of images in it.
type readJob struct {
	path   string
	images int64
}

// readAll reads epochs and files and measures the reads.
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

// epochJobs returns the batches of one epoch. It spreads the total number of images in
// epoch.json over them, to avoid opening any other file.
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
