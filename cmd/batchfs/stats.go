package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/engine"
)

func statsCommand(c *console) *cli.Command {
	return command("stats MOUNTPOINT", func(f *flagSet) runner {
		jsonFlag(c, f, "print one sample as JSON")
		return func(ctx context.Context, args []string) error { return c.stats(ctx, args[0]) }
	})
}

func (c *console) stats(ctx context.Context, mountpoint string) error {
	text, sample, err := statsOf(ctx, mountpoint)
	if err != nil {
		return err
	}
	if c.asJSON {
		_, err := fmt.Fprintf(c.out, "%s\n", bytes.TrimSpace(text))
		return err
	}
	view := statsView{mountpoint: mountpoint, now: sample}
	if !interactive(c.out) {
		return c.show(view)
	}
	return c.watchStats(ctx, view)
}

// statsOf reads the statistics of a mount.
func statsOf(ctx context.Context, mountpoint string) (text []byte, sample fusefs.Stats, err error) {
	text, sample, err = fusefs.ReadStats(ctx, mountpoint)
	switch {
	case errors.Is(err, fusefs.ErrNotMounted):
		err = hint(fmt.Errorf("no batchfs mount at %s", mountpoint), "findmnt -t fuse.batchfs")
	case errors.Is(err, fs.ErrPermission): // of another user, and possibly alive
		err = hint(fmt.Errorf("%s: permission denied", displayName(mountpoint)), askTheOwner)
	case err != nil && text == nil:
		err = hint(err, "if its daemon has died: batchfs umount %s", shellWord(mountpoint))
	}
	return text, sample, err
}

// watchStats draws a sample each second in place.
func (c *console) watchStats(ctx context.Context, v statsView) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	c.printf("\x1b[?7l") // the terminal cuts long lines instead of wrapping them
	defer c.printf("\x1b[?7h")
	for lines := 0; ; {
		var screen strings.Builder
		v.print(&screen)
		if lines > 0 {
			c.printf("\x1b[%dA\x1b[J", lines) // cursor up, and clear to the end
		}
		if _, err := io.WriteString(c.out, screen.String()); err != nil {
			return err
		}
		lines = strings.Count(screen.String(), "\n")
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		_, now, err := statsOf(ctx, v.mountpoint)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			c.say("the mount at %s has ended", v.mountpoint)
			return nil
		}
		v.before, v.now = v.now, now
	}
}

// statsView is one sample. With an earlier sample, storage and stalls are rates between the
// two instead of averages since the start. Throughput is the mount's own figure for its last
// seconds.
type statsView struct {
	mountpoint  string
	before, now fusefs.Stats
}

func (v statsView) print(out io.Writer) {
	t, now := newTable(out), v.now
	stalled := v.perSecond(func(s fusefs.Stats) float64 { return s.Batches.StallSeconds }) // above 1 if several wait at once
	storage := v.perSecond(func(s fusefs.Stats) float64 { return float64(s.Storage.Bytes) })
	t.row("mount", "%s, %s, up %s", v.mountpoint, now.ReadPath, seconds(now.Uptime).Round(time.Second))
	t.row("throughput", "%.0f images/s, %s/s", now.ImagesPerSecond, formatBytes(int64(now.BytesPerSecond)))
	t.row("images", "%d", now.Images)
	t.row("batches", "%d decoded, %d opened, %d waiting", now.Batches.Decoded, now.Batches.Opened, now.Batches.Waiting)
	t.row("stalls", "%s waited, %s in all, %.0f %% of the time now", count(now.Batches.Stalled, "open"),
		seconds(now.Batches.StallSeconds).Round(100*time.Millisecond), 100*stalled)
	t.row("memory", "%s of %s (batches %s, index %s)", formatBytes(now.Memory.Used), formatBytes(now.Memory.Limit),
		formatBytes(now.Memory.Batches), formatBytes(now.Memory.Index))
	if why := now.Memory.ReuseError; why != "" {
		t.row("", "batch memory is not reused: %s", why)
	}
	t.row("cache", "%s, %s", formatBytes(now.Memory.Cache), hitRatio(now.Epochs))
	if f := now.Forms; f.Samples > 0 || f.PackedShare > 0 {
		t.row("packed", "%s in the cache, which take %s more; %.0f %% of what is kept: %s", count(f.Samples, "sample"), formatBytes(f.Grown), 100*f.PackedShare, f.Reason)
	}
	t.row("storage", "%d reads, %s, %s/s", now.Storage.Reads, formatBytes(now.Storage.Bytes), formatBytes(int64(storage)))
	if r := now.Storage.Store; r != nil {
		t.row("store", "%d requests (%d sent again, %d twice, %d throttled), first byte in %.0f ms, 99 %% in %.0f ms", r.Requests, r.Retries, r.Hedges, r.Throttled,
			1000*r.FirstByte.P50, 1000*r.FirstByte.P99)
	}
	if r := now.Storage.Store; r != nil && r.Waiting > 0 {
		t.row("", "the store does not answer: %s waiting for it", count(r.Waiting, "read"))
	} else if r != nil && r.Limit > 0 {
		t.row("", "the store accepts about %.0f requests a second", r.Limit)
	}
	if l := now.Storage.Local; l != nil {
		t.row("local cache", "%s of %s, %d of %d reads, %d damaged", formatBytes(l.Used), formatBytes(l.Limit), l.Hits, l.Hits+l.Misses, l.Damaged)
	}
	if g := now.GPU; g != nil {
		t.row("gpu", "%s", describeUse(g))
	}
	advice := ""
	if now.Errors > 0 {
		advice = ", see " + filepath.Join(v.mountpoint, ".batchfs", "errors.jsonl")
	}
	t.row("errors", "%d%s", now.Errors, advice)
	t.Flush()
}

// hitRatio returns the share of reads in the latest epoch that the cache served, and the share that
// the local cache served as planned.
func hitRatio(epochs []engine.EpochStats) string {
	var last engine.EpochStats
	for i, e := range epochs {
		if i == 0 || e.Epoch > last.Epoch && e.Batches > 0 {
			last = e
		}
	}
	all := last.Hits + last.Misses
	if all == 0 {
		return "nothing read yet"
	}
	local := ""
	if last.LocalHits > 0 {
		local = fmt.Sprintf(" and %.1f %% in the local cache", 100*float64(last.LocalHits)/float64(all))
	}
	return fmt.Sprintf("%.1f %% hits%s in epoch %d", 100*float64(last.Hits)/float64(all), local, last.Epoch)
}

// perSecond is how fast a figure has grown.
func (v statsView) perSecond(figure func(fusefs.Stats) float64) float64 {
	span := v.now.Uptime - v.before.Uptime
	if span <= 0 {
		return 0
	}
	return (figure(v.now) - figure(v.before)) / span
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
