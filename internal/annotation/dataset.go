package annotation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/layout"
)

// A Dataset is a dataset that is open, with what is annotated of its images if any kind of targets
// was asked for.
type Dataset struct {
	*Found // nil: nothing was asked for
	Images *dataset.Dataset
	Left   int // images that have no annotations

	// Join finds these.
	ArrayOptions []*catalog.ArrayOptions
	Condemned    map[int64]string // samples whose annotations are bad, and why
	maskOptions  *catalog.MaskOptions
	table        *target.Table

	options Options
	masks   *dataset.Dataset   // nil: they are in no files
	arrays  []*dataset.Dataset // by column
	opened  []*dataset.Dataset // all that are open
}

var (
	// ErrNoEntry means that annotations are about other images than those of the dataset.
	ErrNoEntry = errors.New("none of the images has an entry")
	// ErrArrayNames means that columns of arrays have names that files cannot have.
	ErrArrayNames = errors.New("columns of arrays")
	// ErrNoArray means that no array in a column can be read, so that its shape is unknown.
	ErrNoArray = errors.New("no array in the column")
)

// An OpenError is the error of opening a dataset: that of the images, or of what belongs to them.
type OpenError struct {
	Path string
	Err  error
}

func (e *OpenError) Error() string { return e.Err.Error() }

func (e *OpenError) Unwrap() error { return e.Err }

// Open opens the dataset at a path and, if any kind of targets is asked for, reads its annotations
// first: on these depends which images are samples. The path may also be that of a folder that has
// the images in one folder, and annotations in others.
func Open(ctx context.Context, path string, o Options) (d *Dataset, err error) {
	o.Source.ShareStores() // by the images and what belongs to them
	d = &Dataset{options: o}
	defer func() {
		if err != nil {
			_ = d.Close()
			d = nil
		}
	}()
	if o.Kinds == (Kinds{}) {
		d.Images, err = d.open(ctx, path, o.Source)
		return d, err
	}
	if o.dir = o.Source.IndexAt; o.dir == "" || store.IsURL(o.dir) { // beside the index
		o.dir = o.Source.CacheDir
	}
	found, err := search(ctx, path, o)
	if err != nil {
		return d, d.explain(ctx, path, err)
	}
	d.Found = found
	return d, d.openAnnotated(ctx)
}

// explain returns what is wrong with the dataset itself, if nothing is at its path and so nothing
// is annotated.
func (d *Dataset) explain(ctx context.Context, path string, err error) error {
	if _, missing := os.Stat(path); missing == nil || !errors.As(err, new(*noneError)) {
		return err
	}
	_, why := d.open(ctx, path, d.options.Source)
	return cmp.Or(why, err) // it may be a pattern, or in a store
}

// openAnnotated opens the images that have annotations, and the files that belong to them.
func (d *Dataset) openAnnotated(ctx context.Context) (err error) {
	if d.Masks != nil {
		if d.masks, err = d.openMasks(ctx); err != nil {
			return err
		}
	}
	if d.Arrays != nil {
		if err := d.openArrays(ctx); err != nil {
			return err
		}
	}
	o, masks := d.options.Source, 0
	o.Only = d.only
	if d.Masks != nil && d.Masks.Field != "" {
		d.takeMasks(d.masks.Len(), d.masks.Path)
		o.Only = func(path string) bool {
			mask := d.Masks.only(path)
			if mask {
				masks++
			}
			return !mask && d.only(path)
		}
	}
	if d.Members != nil {
		if err := d.openMembers(ctx); err != nil {
			return err
		}
	}
	d.Images, err = d.open(ctx, d.Found.Images, o)
	if errors.Is(err, dataset.ErrNone) {
		return fmt.Errorf("%s: %w in %s, such as %q", d.Found.Images, ErrNoEntry, strings.Join(d.Sources, ", "), d.example())
	}
	if err == nil {
		d.Left = d.Images.Left - masks
	}
	return err
}

// open opens one of the datasets. Nearly all of the heap is buffers and the index, neither of which
// takes long to mark; most of the memory would otherwise be garbage.
func (d *Dataset) open(ctx context.Context, path string, o dataset.Options) (*dataset.Dataset, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	if o.Prober == nil {
		o.Prober = sample.Probe
	}
	ds, err := dataset.Open(ctx, path, o)
	if err != nil {
		return nil, &OpenError{path, err}
	}
	d.opened = append(d.opened, ds)
	return ds, nil
}

// openBeside opens a dataset of what belongs to images. Its index is in a folder beside theirs.
func (d *Dataset) openBeside(ctx context.Context, o dataset.Options, path, folder string) (*dataset.Dataset, error) {
	o.AsClasses, o.Classes, o.LabelColumn = true, nil, ""
	if o.CacheDir != "" {
		o.CacheDir = filepath.Join(o.CacheDir, folder)
	}
	if store.IsURL(o.IndexAt) {
		o.IndexAt = "" // that is the index of the images
	} else if o.IndexAt != "" {
		o.IndexAt = filepath.Join(o.IndexAt, folder)
	}
	return d.open(ctx, path, o)
}

// openMasks opens the dataset of masks.
func (d *Dataset) openMasks(ctx context.Context) (*dataset.Dataset, error) {
	m, o := d.Masks, d.options.Source
	o.PathColumn, o.Field, o.Prober = m.Column, m.Field, sample.ProbeMask
	if o.Only = m.only; m.Column != "" {
		o.Only = nil // all of the column are
	}
	o.IgnoreMetadata = m.Column == ""
	return d.openBeside(ctx, o, m.Path, "masks")
}

// openArrays opens the datasets of the arrays in the columns of a manifest.
func (d *Dataset) openArrays(ctx context.Context) error {
	if err := layout.Names(d.Arrays.Columns).Check(); err != nil {
		return fmt.Errorf("%s: %w: %w", d.Arrays.Path, ErrArrayNames, err)
	}
	o := d.options.Source
	o.Prober, o.IgnoreMetadata = sample.ProbeArray, false
	for _, o.PathColumn = range d.Arrays.Columns {
		ds, err := d.openBeside(ctx, o, d.Arrays.Path, "array-"+o.PathColumn)
		if err != nil {
			return err
		}
		d.arrays = append(d.arrays, ds)
	}
	return nil
}

// openMembers reads the members of an archive that say what is annotated. Each kind of them is a
// dataset of its own, which is searched for once and then has an index.
func (d *Dataset) openMembers(ctx context.Context) error {
	members := Dataset{}
	defer members.Close()
	o := d.options.Source
	o.Prober = probeMember
	for _, o.Field = range d.Members {
		_, err := members.openBeside(ctx, o, d.Found.Images, o.Field)
		if err != nil && !errors.Is(err, dataset.ErrEmpty) {
			return err
		}
	}
	return d.takeMembers(ctx, members.opened)
}

// Close closes all that Open opened.
func (d *Dataset) Close() (err error) {
	for _, ds := range d.opened {
		err = errors.Join(err, ds.Close())
	}
	if d.Found != nil {
		err = errors.Join(err, d.Builder.Close())
	}
	return errors.Join(err, d.options.Source.CloseStores())
}

// UnreadableMasks is how many files of masks were found to be bad when they were indexed, and why
// the first one is.
func (d *Dataset) UnreadableMasks() (n int, why string) {
	if d.masks == nil || d.masks.Report.Unreadable == 0 {
		return 0, ""
	}
	for i := range d.masks.Len() {
		if problem := d.masks.Problem(i); problem != "" {
			n++
			why = cmp.Or(why, d.masks.Path(i)+": "+problem)
		}
	}
	return n, why
}

// name is the name of an image in the annotations.
func (d *Dataset) name(i int) string { return d.nameOf(d.Images.Path(i)) }

// Join finds what is annotated of each sample, and its files; masks are looked for if withMasks is
// set. A mask or an array that is missing is a bad annotation.
func (d *Dataset) Join(ctx context.Context, withMasks bool) (err error) {
	if d.Found == nil {
		return nil
	}
	if d.table, err = d.Builder.Table(d.Images.Len(), d.name); err != nil {
		return err
	}
	d.table.Scale(func(i int) (height, width int) { return d.Images.Size(i, false) })
	for column, ds := range d.arrays {
		o := &catalog.ArrayOptions{Name: d.Arrays.Columns[column], Dataset: ds}
		o.Rows = d.rowsIn(ds, "array "+o.Name, func(i int) string { return d.table.Array(i, column) })
		if o.Like, err = sample.ArrayLike(ctx, ds, o.Rows); err != nil {
			return fmt.Errorf("%s: %w %q tells what they are: %w", d.Arrays.Path, ErrNoArray, o.Name, err)
		}
		d.ArrayOptions = append(d.ArrayOptions, o)
	}
	for _, o := range d.ArrayOptions {
		o.Said = d.table.Digest() // now that all that is bad is known
	}
	if withMasks && d.options.Kinds[target.Masks] {
		d.maskOptions = d.optionsOfMasks()
		d.maskOptions.Drawn = d.table.Digest() // likewise
	}
	d.Condemned = catalog.Condemned(d.Images, d.table)
	for _, o := range d.ArrayOptions {
		o.Condemn(d.Condemned)
	}
	return nil
}

// Crowded counts the images with more objects than batches have rows for, of which they leave some
// out, and says how many the fullest one has.
func (d *Dataset) Crowded() (images, most int) {
	if d.Found == nil || d.options.Rules.Max == 0 {
		return 0, 0
	}
	for i := range d.Images.Len() {
		if n := d.table.Count(i); n > d.options.Rules.Max {
			images, most = images+1, max(most, n)
		}
	}
	return images, most
}

// Annotate has batches show what Join found.
func (d *Dataset) Annotate(o *catalog.Options) {
	if d.Found == nil {
		return
	}
	o.Masks, o.Arrays, o.Condemned, o.Annotations = d.maskOptions, d.ArrayOptions, d.Condemned, d.table.MemoryBytes()
	if k := d.options.Kinds; k[target.Boxes] || k[target.Keypoints] || k[target.Text] {
		o.Targets = &catalog.TargetOptions{
			Table: d.table, Rules: d.options.Rules, Classes: d.Classes,
			Boxes: k[target.Boxes], Keypoints: k[target.Keypoints], Text: k[target.Text],
		}
	}
}

// rowsIn finds the files that belong to images, by their paths, in the dataset of such files; -1:
// an image has none.
func (d *Dataset) rowsIn(files *dataset.Dataset, what string, path func(i int) string) []int32 {
	numbers, rows := map[string]int32{}, make([]int32, d.Images.Len())
	for i := 0; files != nil && i < files.Len(); i++ {
		numbers[files.Path(i)] = int32(i)
	}
	for i := range rows {
		row, known := numbers[path(i)]
		if rows[i] = row; !known {
			rows[i] = -1
		}
		if path(i) != "" && !known {
			d.Builder.Bad(d.Builder.Image(d.name(i), 0, 0, false), fmt.Sprintf("%s: the %s of %s is missing", path(i), what, d.Images.Path(i)))
		}
	}
	return rows
}

// optionsOfMasks are those of the masks of the images.
func (d *Dataset) optionsOfMasks() *catalog.MaskOptions {
	o := &catalog.MaskOptions{
		Dataset: d.masks, Rows: d.rowsIn(d.masks, "mask", d.table.Mask),
		Classes: len(d.MaskClasses), Names: d.MaskClasses, Panoptic: d.Masks != nil && d.Masks.Panoptic,
	}
	if o.Map, o.Ignore = d.Values, target.NoClass; o.Panoptic {
		o.Ignore = -1
	}
	if d.options.Ignore != nil {
		o.Ignore = *d.options.Ignore
	}
	for _, class := range d.Values {
		o.Classes = max(o.Classes, int(class)+1)
	}
	o.Size = func(id int64) (height, width int) {
		if height, width, _ = d.table.Size(int(id)); height == 0 || width == 0 {
			height, width = d.Images.Size(int(id), true)
		}
		return height, width
	}
	none := byte(target.NoClass)
	if d.Values == nil && o.Ignore >= 0 && o.Ignore <= math.MaxUint8 {
		none = byte(o.Ignore)
	}
	o.Draw = func(id int64, to []byte) error {
		if d.masks != nil { // the others have files
			copy(to, bytes.Repeat([]byte{none}, len(to)))
			return nil
		}
		height, width := o.Size(id)
		return target.Draw(to, height, width, d.table.Shapes(int(id)))
	}
	return o
}
