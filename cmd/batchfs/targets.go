package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/store"
)

// annotationFlags say where annotations are. They decide which images are samples.
func annotationFlags(f *flagSet, o *annotation.Options, source *dataset.Options) {
	f.group = aboutTargets
	f.derived("targets", "none", "`KIND,...` of annotations besides labels: masks, boxes, keypoints, text, arrays; images without an annotation file or entry are left out",
		value(&o.Kinds, "a list of masks, boxes, keypoints, text and arrays", annotation.ParseKinds)).everyday()
	f.derived("annotations", "where the layout of DATASET has them", "take annotations from `FILE,...`: a .json file of COCO, a folder with a file for each image, "+
		"those files as a pattern such as 'masks/*_mask.png', or a .txt file that lists the samples",
		value(&o.Files, "a list of files", func(text string) ([]string, bool) {
			list := strings.Split(text, ",")
			return list, !strings.Contains(","+text+",", ",,")
		}))
	f.add("empty", "keep", "images in which nothing is annotated: `keep|skip`", pick(&o.SkipEmpty, "keep|skip", false, true))
	f.check(func() error {
		for _, one := range f.flags {
			name := one.Names()[0]
			needs := []string{"boxes", "keypoints"}
			switch {
			case group(one) != aboutTargets || name == "targets" || !f.Changed(name):
				continue
			case name == "label-map" || name == "ignore-index":
				needs = []string{"masks"}
			case name == "annotations" || name == "empty":
				needs = []string{"masks", "boxes", "keypoints", "text", "arrays"}
			}
			if !o.Kinds.Any(needs...) {
				return usage("--%s needs --targets with %s", name, english.WordSeries(needs, "or"))
			}
		}
		return nil
	})
}

// targetFlags are those that a mount has besides annotationFlags.
func targetFlags(f *flagSet, o *annotation.Options, source *dataset.Options) {
	annotationFlags(f, o, source)
	f.derived("label-map", "those of the layout", "what the values of masks mean: `trainids|FILE`, of Cityscapes, or a file with a value and its class in each line",
		anything(&o.LabelMap, "trainids or a file"))
	f.derived("ignore-index", "255, or -1 where masks are panoptic", "`N` in masks where there is no image, and no class",
		value(&o.Ignore, "a whole number of 32 bits", func(text string) (*int32, bool) {
			var n int64
			rule := number(&n, math.MinInt32, math.MaxInt32)(text)
			small := int32(n)
			return &small, rule == ""
		}))
	f.add("min-box-area", "0", "drop boxes of which less than `A` pixels of the result are shown", value(&o.Rules.MinArea, "a number, at least 0", func(text string) (float64, bool) {
		a, ok := parseRatio(text)
		return a, ok && a >= 0
	}))
	f.add("min-visibility", "0", "drop boxes of which less than this `SHARE` of their area is shown", fraction(&o.Rules.MinVisibility))
	clip := true
	f.toggle(&clip, "clip", true, "end boxes where the image ends")
	f.add("box-format", "xyxy", "what the numbers of a box are: `xyxy|xywh|cxcywh`, two corners, or the first corner or the centre, and the size",
		named(&o.Rules.Format))
	f.derived("max-boxes", "as many as there are, one sample's after the other's", "give each sample `K` rows: its first boxes, then zeros with the label -1",
		number(&o.Rules.Max, 1, maxCount))
	f.check(func() error {
		o.Rules.NoClip = !clip
		return nil
	})
}

// openAsked opens a dataset, with the annotations that are asked for, and scans what its index
// lacks, with progress on a terminal.
func (c *console) openAsked(ctx context.Context, path string, o dataset.Options, find annotation.Options) (*annotation.Dataset, error) {
	bar := c.progress()
	defer bar.close()
	o.CacheDir, o.Listing, o.Progress = cmp.Or(o.CacheDir, c.env.cacheDir), bar.reporter("searching", "B"), bar.reporter("indexing", "images")
	c.env.tokens(&o.Store)
	if o.Logger == quiet {
		o.Store.Logger = slog.New(outageTeller{slog.DiscardHandler, c})
	}
	find.Source, find.Progress = o, bar.reporter("reading annotations", "B")
	a, err := annotation.Open(ctx, path, find)
	return a, c.annotatedError(path, err, &find)
}

// annotatedError says what to do about an error of opening a dataset with its annotations.
func (c *console) annotatedError(path string, err error, o *annotation.Options) error {
	opening, ofDataset := errors.AsType[*annotation.OpenError](err)
	ofFile := errors.Is(err, store.ErrURL) || errors.Is(err, dataset.ErrManifest) || errors.Is(err, dataset.ErrManifests) || errors.Is(err, dataset.ErrArchive)
	ofStore := errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrUntrusted) ||
		errors.Is(err, store.ErrNoPlace) || errors.Is(err, store.ErrNoRange)
	switch {
	case err == nil:
		return nil
	case ofDataset:
		return openError(c.command, opening.Path, opening.Err, &o.Source)
	case errors.Is(err, annotation.ErrNoEntry):
		return hint(err, "name the folder that the annotations are about: batchfs %s DATASET ...; or other annotations: --annotations FILE", c.command)
	case errors.Is(err, store.ErrDenied):
		return hint(err, "%s", deniedHint(deniedPlace(path, o.Files), o.Source.Store.Anonymous))
	case ofFile || ofStore || errors.As(err, new(*dataset.AmbiguousError)):
		return openError(c.command, path, err, &o.Source)
	}
	return annotationError(c.command, path, err)
}

// deniedPlace returns the first of the named places that is in a store.
func deniedPlace(path string, files []string) string {
	for _, name := range append([]string{path}, files...) {
		if url := dataset.StoreURL(name); url != "" {
			return url
		}
	}
	return path
}

// annotationError says what to do about an error of looking for annotations.
func annotationError(command, path string, err error) error {
	if several, ok := errors.AsType[*annotation.ImagesError](err); ok {
		return hint(err, "batchfs %s %s ...", command, shellWord(filepath.Join(path, several.Images[0])))
	}
	if lacks, ok := errors.AsType[*annotation.KindError](err); ok {
		var words []string
		if has := lacks.Has.Names(); has != nil {
			words = append(words, "--targets "+strings.Join(has, ","))
		}
		if lacks.Layout == "a manifest" {
			words = append(words, "columns of a manifest are called mask, boxes (or objects), keypoints; those of arrays have paths that end in .npy")
		}
		if words != nil {
			return hint(err, "%s", strings.Join(words, "; "))
		}
	}
	return advise(err,
		lookAtDenied(path, err),
		advice{annotation.ErrArrayNames, "rename or remove columns whose values end in .npy, or leave arrays out of --targets"},
		advice{err, "to say where annotations are: --annotations FILE; for the layouts that are known, see docs/datasets.md"})
}

// noArray says what to do where [annotation.Dataset.Join] finds no array in a column.
var noArray = advice{annotation.ErrNoArray,
	"the column has paths relative to the manifest, of files that numpy.save wrote; to do without them, leave arrays out of --targets"}

// openTargets opens the dataset of a mount, and what its images have besides labels.
func (r *mountRequest) openTargets(ctx context.Context) (*annotation.Dataset, error) {
	a, err := r.openAsked(ctx, r.dataset, r.source, r.targets)
	if err != nil {
		return nil, err
	}
	if err = a.Join(ctx, true); err != nil {
		_ = a.Close()
		return nil, advise(err, noArray)
	}
	a.Annotate(&r.engine.Options)
	r.annotated = annotated(a)
	if n, most := a.Crowded(); n > 0 {
		r.annotated += fmt.Sprintf("; %s with more than --max-boxes %d, up to %d", count(n, "image"), r.targets.Rules.Max, most)
	}
	return a, nil
}

// annotated says in words what is annotated of a dataset, of what it is not, and of what it is bad;
// "": nothing is asked for.
func annotated(a *annotation.Dataset) string {
	found := a.Found
	if found == nil {
		return ""
	}
	var sources []string
	for _, file := range found.Sources {
		sources = append(sources, filepath.Base(file))
	}
	text := fmt.Sprintf("; annotations: %s (%s)", found.Layout, someOf(sources))
	if n := found.Builder.Objects(); n > 0 {
		text += ", " + count(n, "box")
	}
	if n := len(found.Classes); n > 0 {
		text += fmt.Sprintf(" in %s (%s)", count(n, "class"), someOf(found.Classes))
	}
	if n := len(found.MaskClasses); n > 0 {
		text += fmt.Sprintf(", masks of %s", count(n, "class"))
	}
	for i, o := range a.ArrayOptions {
		text += []string{"; arrays: ", ", "}[min(i, 1)] + o.String()
		if n := o.Without(); n > 0 {
			text += fmt.Sprintf(" (%s without)", count(n, "image"))
		}
	}
	if a.Left > 0 {
		text += fmt.Sprintf("; %s without annotations left out", count(a.Left, "image"))
	}
	if n := found.Entries() - a.Images.Len(); n > 0 {
		text += fmt.Sprintf("; %s missing", count(n, "annotated image"))
	}
	if found.Strays > 0 {
		text += fmt.Sprintf("; %s of images that are not listed", count(found.Strays, "annotation"))
	}
	if n, why := a.UnreadableMasks(); n > 0 {
		text += fmt.Sprintf("; %s unreadable (%s)", count(n, "mask"), displayName(why))
	}
	if ids := slices.Sorted(maps.Keys(a.Condemned)); len(ids) > 0 {
		text += fmt.Sprintf("; %s with bad annotations (%s)", count(len(ids), "image"), displayName(a.Condemned[ids[0]]))
	}
	return text
}
