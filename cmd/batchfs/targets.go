package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/layout"
)

// annotationFlags say what is annotated, on which depends which images are samples.
func annotationFlags(f *flagSet, o *annotation.Options, source *dataset.Options) {
	f.group = aboutTargets
	f.derived("targets", "none", "`KIND,...` of what images have besides labels: masks, boxes, keypoints, text, arrays; images without an annotation file or entry are left out",
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
			needs := "masks, boxes, keypoints, text or arrays"
			switch {
			case group(one) != aboutTargets || name == "targets" || !f.Changed(name):
				continue
			case name == "label-map" || name == "ignore-index":
				if needs = "masks"; o.Kinds[target.Masks] {
					continue
				}
			case name == "annotations" || name == "empty":
				if o.Kinds != (annotation.Kinds{}) {
					continue
				}
			case o.Kinds[target.Boxes] || o.Kinds[target.Keypoints]:
				continue
			default:
				needs = "boxes or keypoints"
			}
			return usage("--%s needs --targets with %s", name, needs)
		}
		return nil
	})
}

// targetRequest says which targets a mount has, and how.
type targetRequest struct {
	find   annotation.Options
	rules  target.Rules
	ignore *int32 // nil: not given
}

// targetFlags are those that a mount has besides annotationFlags.
func targetFlags(f *flagSet, r *targetRequest, source *dataset.Options) {
	annotationFlags(f, &r.find, source)
	f.derived("label-map", "those of the layout", "what the values of masks mean: `trainids|FILE`, of Cityscapes, or a file with a value and its class in each line",
		value(&r.find.LabelMap, "trainids or a file", func(text string) (string, bool) { return text, text != "" }))
	f.derived("ignore-index", "255, or -1 where masks are panoptic", "`N` in masks where there is no image, and no class",
		value(&r.ignore, "a whole number of 32 bits", func(text string) (*int32, bool) {
			var n int64
			rule := number(&n, math.MinInt32, math.MaxInt32)(text)
			small := int32(n)
			return &small, rule == ""
		}))
	f.add("min-box-area", "0", "drop boxes of which less than `A` pixels of the result are shown", value(&r.rules.MinArea, "a number, at least 0", func(text string) (float64, bool) {
		a, ok := parseRatio(text)
		return a, ok && a >= 0
	}))
	f.add("min-visibility", "0", "drop boxes of which less than this `SHARE` of their area is shown", fraction(&r.rules.MinVisibility))
	clip := true
	f.toggle(&clip, "clip", true, "end boxes where the image ends")
	f.add("box-format", "xyxy", "what the numbers of a box are: `xyxy|xywh|cxcywh`, two corners, or the first corner or the centre, and the size",
		choice(&r.rules.Format, target.XYXY, target.XYWH, target.CXCYWH))
	f.derived("max-boxes", "as many as there are, one sample's after the other's", "give each sample `K` rows: its first boxes, then zeros with the label -1",
		number(&r.rules.Max, 1, maxCount))
	f.check(func() error {
		r.rules.NoClip = !clip
		return nil
	})
}

// annotated is a dataset with annotations, if any are asked for.
type annotated struct {
	*annotation.Found
	user   *console
	said   *target.Builder // nil: none are asked for
	images *dataset.Dataset
	masks  *dataset.Dataset   // nil: they are in no files
	arrays []*dataset.Dataset // by column
	opened []*dataset.Dataset // all of these
	left   int                // images that have no annotations

	// What join finds.
	table        *target.Table
	maskOptions  *catalog.MaskOptions // nil: masks are not asked for
	arrayOptions []*catalog.ArrayOptions
	condemned    map[int64]string // samples whose annotations are bad, and why
}

func (a *annotated) close() (err error) {
	for _, ds := range a.opened {
		err = errors.Join(err, ds.Close())
	}
	if a.said != nil {
		err = errors.Join(err, a.said.Close())
	}
	return err
}

// open opens one of the datasets.
func (a *annotated) open(ctx context.Context, path string, o dataset.Options) (*dataset.Dataset, error) {
	ds, err := a.user.openDataset(ctx, path, o)
	if err == nil {
		a.opened = append(a.opened, ds)
	}
	return ds, err
}

// openAsked opens a dataset; with its annotations, if any are asked for: on these depends which
// images are samples.
func (c *console) openAsked(ctx context.Context, path string, o dataset.Options, find annotation.Options) (a annotated, err error) {
	if find.Kinds != (annotation.Kinds{}) {
		return c.openAnnotated(ctx, path, o, find)
	}
	a.user = c
	a.images, err = a.open(ctx, path, o)
	return a, err
}

// openAnnotated reads the annotations of images, with progress on a terminal, and opens the images
// that have any, and their masks.
func (c *console) openAnnotated(ctx context.Context, path string, o dataset.Options, find annotation.Options) (a annotated, err error) {
	a.user = c
	bar := c.progress("reading annotations", "B")
	find.Source, find.Progress = o, bar.report
	if find.Dir = c.env.cacheDir; o.IndexAt != "" && !store.IsURL(o.IndexAt) {
		find.Dir = strings.TrimSuffix(o.IndexAt, filepath.Base(o.IndexAt))
		if find.Dir = cmp.Or(find.Dir, "."); !strings.HasSuffix(o.IndexAt, ".facts") {
			find.Dir = o.IndexAt
		}
	}
	c.env.tokens(&find.Source.Store)
	a.Found, err = annotation.Open(ctx, path, find)
	bar.close()
	if err == nil {
		a.said = a.Builder
	}
	if errors.Is(err, store.ErrDenied) {
		return a, hint(err, "%s", deniedHint(deniedPlace(path, find.Files), o.Store.Anonymous))
	}
	if _, missing := os.Stat(path); missing != nil && errors.As(err, new(*annotation.NoneError)) {
		if ds, why := c.openDataset(ctx, path, o); why != nil { // which says what is wrong
			return a, why
		} else if why = ds.Close(); why != nil { // it was a pattern, or in a store
			return a, why
		}
	}
	ofDataset := errors.Is(err, store.ErrURL) || errors.Is(err, dataset.ErrManifest) || errors.Is(err, dataset.ErrManifests) || errors.Is(err, dataset.ErrArchive)
	if ofDataset || errors.As(err, new(*dataset.AmbiguousError)) {
		return a, openError(c.command, path, err, &o)
	}
	if err != nil {
		return a, annotationError(c.command, path, err)
	}
	defer func() {
		if err != nil {
			_ = a.close()
		}
	}()
	found := a.Found
	if found.Masks != nil {
		if a.masks, err = a.openMasks(ctx, o); err != nil {
			return a, err
		}
	}
	if found.Arrays != nil {
		if err = a.openArrays(ctx, o); err != nil {
			return a, err
		}
	}
	o.Only = found.Only
	if found.Masks != nil && found.Masks.Field != "" {
		found.TakeMasks(a.masks.Len(), a.masks.Path)
		o.Only = func(path string) bool {
			mask := found.Masks.Only(path)
			if mask {
				a.left-- // it is no image
			}
			return !mask && found.Only(path)
		}
	}
	if found.Members != nil {
		if err = a.takeMembers(ctx, o); err != nil {
			return a, annotationError(c.command, path, err)
		}
	}
	if a.images, err = a.open(ctx, found.Images, o); err == nil {
		a.left += a.images.Left
	}
	if errors.Is(err, dataset.ErrNone) {
		err = hint(fmt.Errorf("%s: none of the images has an entry in %s, such as %q", found.Images, english.WordSeries(found.Sources, "and"), found.Example()),
			"name the folder that the annotations are about: batchfs %s DATASET ...; or other annotations: --annotations FILE", c.command)
	}
	return a, err
}

// deniedPlace is the first of what was named that is in a store.
func deniedPlace(path string, files []string) string {
	for _, name := range append([]string{path}, files...) {
		if url := dataset.StoreURL(name); url != "" {
			return url
		}
	}
	return path
}

// takeMembers reads the members of an archive that say what is annotated. Each kind of them is a
// dataset of its own, which is searched for once and then has an index.
func (a *annotated) takeMembers(ctx context.Context, o dataset.Options) error {
	members := annotated{user: a.user}
	defer members.close()
	for _, field := range a.Members {
		o.Only, o.Field, o.Prober = nil, field, annotation.ProbeMember
		_, err := members.openBeside(ctx, o, a.Images, field)
		if err != nil && !errors.Is(err, dataset.ErrEmpty) {
			return err
		}
	}
	return a.TakeMembers(ctx, members.opened)
}

// annotationError says what to do about an error of looking for annotations.
func annotationError(command, path string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w while reading the annotations of %s", errInterrupted, publicName(path))
	}
	if several, ok := errors.AsType[*annotation.ImagesError](err); ok {
		return hint(err, "batchfs %s %s ...", command, shellWord(filepath.Join(path, several.Images[0])))
	}
	if lacks, ok := errors.AsType[*annotation.KindError](err); ok {
		if has := lacks.Has.Names(); has != nil {
			return hint(err, "--targets %s", strings.Join(has, ","))
		}
	}
	return advise(err,
		lookAtDenied(path, err),
		advice{err, "to say where annotations are: --annotations FILE; for the layouts that are known, see docs/datasets.md"})
}

// openTargets opens the dataset of a mount, and what its images have besides labels.
func (r *mountRequest) openTargets(ctx context.Context) (ds *dataset.Dataset, closeIt func() error, err error) {
	t, o := &r.targets, &r.engine
	a, err := r.openAsked(ctx, r.dataset, r.source, t.find)
	if err != nil {
		return nil, nil, err
	}
	if err = a.join(ctx, t); err != nil {
		_ = a.close()
		return nil, nil, err
	}
	o.Masks, o.Arrays, o.Condemned = a.maskOptions, a.arrayOptions, a.condemned
	if a.table != nil {
		o.Annotations = a.table.MemoryBytes()
	}
	if k := t.find.Kinds; k[target.Boxes] || k[target.Keypoints] || k[target.Text] {
		o.Targets = &catalog.TargetOptions{
			Table: a.table, Rules: t.rules, Boxes: k[target.Boxes], Keypoints: k[target.Keypoints], Text: k[target.Text], Classes: a.Classes,
		}
	}
	r.annotated = a.summary()
	return a.images, a.close, nil
}

// name is the name of an image in the annotations.
func (a *annotated) name(i int) string { return a.Name(a.images.Path(i)) }

// join finds what is annotated of each sample, if anything is asked for, and its files. A mask or
// an array that is missing is a bad annotation.
func (a *annotated) join(ctx context.Context, t *targetRequest) (err error) {
	if a.said == nil {
		return nil
	}
	if a.table, _, err = a.said.Table(a.images.Len(), a.name); err != nil {
		return err
	}
	a.table.Scale(func(i int) (height, width int) { return a.images.Size(i, false) })
	for column, ds := range a.arrays {
		o := &catalog.ArrayOptions{Name: a.Arrays.Columns[column], Dataset: ds}
		o.Rows = a.rowsIn(ds, "array "+o.Name, func(i int) string { return a.table.Array(i, column) })
		if o.Like, err = sample.ArrayLike(ctx, ds, o.Rows); err != nil {
			return hint(fmt.Errorf("%s: no array in the column %q tells what they are: %w", a.Arrays.Path, o.Name, err),
				"the column has paths relative to the manifest, of files that numpy.save wrote; to do without them, leave arrays out of --targets")
		}
		a.arrayOptions = append(a.arrayOptions, o)
	}
	for _, o := range a.arrayOptions {
		o.Said = a.table.Digest() // now that all that is bad is known
	}
	if t.find.Kinds[target.Masks] {
		a.maskOptions = t.maskOptions(a)
		a.maskOptions.Drawn = a.table.Digest() // likewise
	}
	a.condemned = catalog.Condemned(a.images, a.table)
	for _, o := range a.arrayOptions {
		o.Condemn(a.condemned)
	}
	return nil
}

// openMasks opens the dataset of masks, which has an index of its own. The options are those of the
// images.
func (a *annotated) openMasks(ctx context.Context, o dataset.Options) (*dataset.Dataset, error) {
	m := a.Masks
	o.PathColumn, o.Field, o.Prober = m.Column, m.Field, sample.ProbeMask
	if o.Only = m.Only; m.Column != "" {
		o.Only = nil // all of the column are
	}
	o.IgnoreMetadata = m.Column == ""
	return a.openBeside(ctx, o, m.Path, "masks")
}

// openArrays opens the datasets of the arrays in the columns of a manifest, each of which has an
// index of its own. The options are those of the images.
func (a *annotated) openArrays(ctx context.Context, o dataset.Options) error {
	if err := layout.Names(a.Arrays.Columns).Check(); err != nil {
		return hint(fmt.Errorf("%s: columns of arrays: %w", a.Arrays.Path, err),
			"rename or remove columns whose values end in .npy, or leave arrays out of --targets")
	}
	o.Only, o.Field, o.Prober, o.IgnoreMetadata = nil, "", sample.ProbeArray, false
	for _, o.PathColumn = range a.Arrays.Columns {
		ds, err := a.openBeside(ctx, o, a.Arrays.Path, "array-"+o.PathColumn)
		if err != nil {
			return err
		}
		a.arrays = append(a.arrays, ds)
	}
	return nil
}

// rowsIn finds the files that belong to images, by their paths, in the dataset of such files; -1:
// an image has none.
func (a *annotated) rowsIn(files *dataset.Dataset, what string, path func(i int) string) []int32 {
	numbers, rows := map[string]int32{}, make([]int32, a.images.Len())
	for i := 0; files != nil && i < files.Len(); i++ {
		numbers[files.Path(i)] = int32(i)
	}
	for i := range rows {
		row, known := numbers[path(i)]
		if rows[i] = row; !known {
			rows[i] = -1
		}
		if path(i) != "" && !known {
			a.said.Bad(a.said.Image(a.name(i), 0, 0, false),
				fmt.Sprintf("%s: the %s of %s is missing", path(i), what, a.images.Path(i)))
		}
	}
	return rows
}

// openBeside opens a dataset of what belongs to images. Its index is in a folder beside theirs.
func (a *annotated) openBeside(
	ctx context.Context, o dataset.Options, path, folder string,
) (*dataset.Dataset, error) {
	o.AsClasses, o.Classes, o.LabelColumn = true, nil, ""
	if dir := a.user.env.cacheDir; dir != "" {
		o.CacheDir = filepath.Join(dir, folder)
	}
	if store.IsURL(o.IndexAt) || strings.HasSuffix(o.IndexAt, ".facts") {
		o.IndexAt = "" // that is the index of the images
	} else if o.IndexAt != "" {
		o.IndexAt = filepath.Join(o.IndexAt, folder)
	}
	return a.open(ctx, path, o)
}

// maskOptions are those of the masks of a dataset's images.
func (t *targetRequest) maskOptions(a *annotated) *catalog.MaskOptions {
	masks, table, found := a.masks, a.table, a.Found
	o := &catalog.MaskOptions{
		Dataset: masks, Rows: a.rowsIn(masks, "mask", table.Mask),
		Classes: len(found.MaskClasses), Names: found.MaskClasses, Panoptic: found.Masks != nil && found.Masks.Panoptic,
	}
	if o.Map, o.Ignore = found.Values, target.NoClass; o.Panoptic {
		o.Ignore = -1
	}
	if t.ignore != nil {
		o.Ignore = *t.ignore
	}
	for _, class := range found.Values {
		o.Classes = max(o.Classes, int(class)+1)
	}
	o.Size = func(id int64) (height, width int) {
		if height, width, _ = table.Size(int(id)); height == 0 || width == 0 {
			height, width = a.images.Size(int(id), true)
		}
		return height, width
	}
	none := byte(target.NoClass)
	if found.Values == nil && o.Ignore >= 0 && o.Ignore <= math.MaxUint8 {
		none = byte(o.Ignore)
	}
	o.Draw = func(id int64, to []byte) error {
		if masks != nil { // the others have files
			copy(to, bytes.Repeat([]byte{none}, len(to)))
			return nil
		}
		height, width := o.Size(id)
		return target.Draw(to, height, width, table.Shapes(int(id)))
	}
	return o
}

// verify decodes all images of a dataset, and their masks and arrays, and adds what is wrong with
// them, and with other annotations, to a result.
func (t *targetRequest) verify(ctx context.Context, c *console, a *annotated, o sample.Options, v *verifyResult) (err error) {
	if err := a.join(ctx, t); err != nil {
		return err
	}
	bad, m := a.condemned, a.maskOptions
	if m != nil {
		m.Wide = true // nobody has the masks as 8 bits
		o.Also = func(i int, room func(n int) ([]byte, error)) error {
			if m.Rows[i] >= 0 || a.masks != nil {
				return nil
			}
			height, width := m.Size(int64(i))
			to, err := room(height * width)
			if err == nil {
				err = m.Draw(int64(i), to)
			}
			return err
		}
	}
	for i := range a.images.Len() {
		height, width := a.images.Size(i, true)
		if m == nil || bad[int64(i)] != "" || height == 0 {
			continue
		}
		mask := m.Indexed(int64(i))
		if mask.Row >= 0 && a.masks.Problem(mask.Row) != "" {
			continue // decoding it says so
		}
		if err := m.Check(&mask, height, width, a.images.Orientation(i), o.Decoding.IgnoreOrientation); err != nil {
			bad[int64(i)] = err.Error()
		}
	}
	if v.Verdict, err = c.verify(ctx, a.images, dataset.Share{}, o); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(bad)) {
		v.Bad = append(v.Bad, dataset.NewBadFile(a.images.Path(int(id)), int(id), bad[id]))
	}
	// also verifies files beside images, which are listed by the numbers of the samples that have
	// them; -1: none has.
	type verifier func(context.Context, *dataset.Dataset, sample.Options) (sample.Verdict, error)
	also := func(ds *dataset.Dataset, rows []int32, what string, verify verifier) (samples int, err error) {
		bar := c.progress("verifying", what)
		defer bar.close()
		o.Progress = bar.report
		of, err := verify(ctx, ds, o)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w while verifying %s", errInterrupted, what)
		}
		owners := map[string]int{}
		for id, row := range slices.Backward(rows) {
			if row >= 0 {
				owners[ds.Path(int(row))] = id
			}
		}
		for _, list := range [][]dataset.BadFile{of.Bad, of.Unread} {
			for i := range list {
				id, owned := owners[list[i].Path]
				if list[i].ID = id; !owned {
					list[i].ID = -1
				}
			}
		}
		v.Bad, v.Unread = append(v.Bad, of.Bad...), append(v.Unread, of.Unread...)
		v.NoMemory = v.NoMemory || of.NoMemory
		return of.Samples, err
	}
	if a.masks != nil {
		if v.Masks, err = also(a.masks, m.Rows, "masks", sample.VerifyMasks); err != nil {
			return err
		}
	}
	for i, ds := range a.arrays {
		n, err := also(ds, a.arrayOptions[i].Rows, "arrays", sample.VerifyArrays)
		if v.Arrays += n; err != nil {
			return err
		}
	}
	return nil
}

// summary says in words what is annotated of a dataset, of what it is not, and of what it is bad;
// "": nothing is asked for.
func (a *annotated) summary() string {
	if a.said == nil {
		return ""
	}
	found := a.Found
	var sources []string
	for _, file := range found.Sources {
		sources = append(sources, filepath.Base(file))
	}
	text := fmt.Sprintf("; annotations: %s (%s)", found.Layout, someOf(sources))
	if n := a.said.Objects(); n > 0 {
		text += ", " + count(n, "box")
	}
	if n := len(found.Classes); n > 0 {
		text += fmt.Sprintf(" in %s (%s)", count(n, "class"), someOf(found.Classes))
	}
	if n := len(found.MaskClasses); n > 0 {
		text += fmt.Sprintf(", masks of %s", count(n, "class"))
	}
	for i, o := range a.arrayOptions {
		text += []string{"; arrays: ", ", "}[min(i, 1)] + o.String()
		if n := o.Without(); n > 0 {
			text += fmt.Sprintf(" (%s without)", count(n, "image"))
		}
	}
	if a.left > 0 {
		text += fmt.Sprintf("; %s without annotations left out", count(a.left, "image"))
	}
	if n := found.Entries() - a.images.Len(); n > 0 {
		text += fmt.Sprintf("; %s missing", count(n, "annotated image"))
	}
	if found.Strays > 0 {
		text += fmt.Sprintf("; %s of images that are not listed", count(found.Strays, "annotation"))
	}
	if ids := slices.Sorted(maps.Keys(a.condemned)); len(ids) > 0 {
		text += fmt.Sprintf("; %s with bad annotations (%s)", count(len(ids), "image"), shown(a.condemned[ids[0]]))
	}
	return text
}
