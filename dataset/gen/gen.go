package gen

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Kind is the kind of pictures in a dataset.
type Kind uint8

const (
	Photo     Kind = iota // JPEG 500x375, quality 90, 4:2:0, about 100 KB each
	Cityscape             // PNG 2048x1024 RGB, about 2.3 MB each
	Mixed                 // every format and many sizes, small
)

var kinds = [...]string{Photo: "photo", Cityscape: "cityscape", Mixed: "mixed"}

// ParseKind finds a kind by its name: photo, cityscape or mixed.
func ParseKind(name string) (Kind, bool) {
	for k := range kinds {
		if kinds[k] == name {
			return Kind(k), true
		}
	}
	return 0, false
}

// String is the kind's name.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return "unknown"
}

// Options say what to make.
type Options struct {
	Dir     string // must be missing or empty
	Images  int    // at least 1
	Kind    Kind
	Classes int    // class directories, at most as many as images; 0: none, all files in Dir
	Format  string // "" for the kind's own, or jpeg, png, bmp, ppm, webp; must be "" for Mixed
	Seed    uint64
	Workers int // 0: one per processor

	// Progress, if not nil, is called with the number of images made. Calls do not overlap, and
	// done only grows.
	Progress func(done, total int)
}

// Formats returns the values that Options.Format may have, apart from "".
func Formats() []string { return []string{"jpeg", "png", "bmp", "ppm", "webp"} }

func (o Options) validate() error {
	switch {
	case o.Dir == "":
		return fmt.Errorf("dir: a name is needed, got %q", o.Dir)
	case o.Images < 1:
		return fmt.Errorf("images: at least 1 is needed, got %d", o.Images)
	case o.Classes < 0:
		return fmt.Errorf("classes: 0 or more are possible, got %d", o.Classes)
	case o.Workers < 0:
		return fmt.Errorf("workers: 0 or more are possible, got %d", o.Workers)
	case int(o.Kind) >= len(kinds):
		return fmt.Errorf("kind: photo, cityscape or mixed is needed, got %d", o.Kind)
	case o.Format == "":
		return nil
	case o.Kind == Mixed:
		return fmt.Errorf("format: a mixed dataset has every format, got %q", o.Format)
	}
	for _, f := range Formats() {
		if o.Format == f {
			return nil
		}
	}
	return fmt.Errorf("format: one of %v is needed, got %q", Formats(), o.Format)
}

// Write makes a dataset. Image i belongs to class i mod Classes and its path is
// Dir/class-ccc/iiiiii.ext, with more digits if needed. The dataset becomes visible when it is
// complete; on an error, or when ctx is done, everything that was made is removed.
func Write(ctx context.Context, o Options) error {
	if err := o.validate(); err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	s, err := newStage(o.Dir)
	if err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	if err := s.makeAll(ctx, o); err != nil {
		s.discard()
		return fmt.Errorf("gen: %w", err)
	}
	if err := s.publish(); err != nil {
		s.discard()
		return fmt.Errorf("gen: %w", err)
	}
	return nil
}

// makeAll makes every file in the stage.
func (s *stage) makeAll(ctx context.Context, o Options) error {
	names := newNames(o)
	for c := range names.classes {
		if err := os.Mkdir(filepath.Join(s.tmp, names.class(c)), 0o755); err != nil {
			return err
		}
	}
	noise := newTiles(o.Seed)
	var next atomic.Int64
	var mu sync.Mutex // guards done, and serializes calls of Progress
	done := 0
	g, ctx := errgroup.WithContext(ctx)
	for range min(o.Workers, o.Images) {
		g.Go(func() error {
			m := newMaker(o, noise)
			for {
				i := int(next.Add(1) - 1)
				if i >= o.Images {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				data, ext := m.image(i)
				if err := os.WriteFile(filepath.Join(s.tmp, names.file(i, ext)), data, 0o644); err != nil {
					return err
				}
				mu.Lock()
				done++
				if o.Progress != nil {
					o.Progress(done, o.Images)
				}
				mu.Unlock()
			}
		})
	}
	return g.Wait()
}

// names builds paths inside a dataset.
type names struct{ classes, classDigits, fileDigits int }

func newNames(o Options) names {
	n := names{classes: min(o.Classes, o.Images)}
	n.classDigits = max(3, len(fmt.Sprint(n.classes-1)))
	n.fileDigits = max(6, len(fmt.Sprint(o.Images-1)))
	return n
}

func (n names) class(c int) string { return fmt.Sprintf("class-%0*d", n.classDigits, c) }

func (n names) file(i int, ext string) string {
	file := fmt.Sprintf("%0*d%s", n.fileDigits, i, ext)
	if n.classes == 0 {
		return file
	}
	return filepath.Join(n.class(i%n.classes), file)
}
