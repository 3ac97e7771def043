// Package catalog says which batches exist, which samples they hold, and how large they are. All of
// it follows from the dataset's index and the options. It is pure: nothing is read or decoded, and
// nothing changes during a mount.
package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// A Key names a batch. All three numbers count from 0.
type Key struct {
	Shard, Epoch, Batch int
	Part                Part
}

// A Part is what is made together. A batch of masks is made on its own, with its own reader and its
// own batches made ahead.
type Part uint8

const (
	Images     Part = iota // and everything that needs no making
	Masks                  // the masks of the same samples
	Both                   // images, masks and any arrays, for a form with all of them
	WithArrays             // images and arrays, if there are no masks
	firstArray             // one array of the same samples
)

// ArrayPart is the part that is array i.
func ArrayPart(i int) Part { return firstArray + Part(i) }

// Array is the number of the array that a part is; false: it is not an array.
func (p Part) Array() (i int, ok bool) { return int(p) - int(firstArray), p >= firstArray }

// HasArray reports whether a part has array i, provided that the array exists.
func (p Part) HasArray(i int) bool { return p == Both || p == WithArrays || p == ArrayPart(i) }

// HasArrays reports whether a part has any array.
func (o *Options) HasArrays(p Part) bool {
	_, isArray := p.Array()
	return isArray || len(o.Arrays) > 0 && p.HasArray(0)
}

// PartOf is the part that a form shows.
func (o *Options) PartOf(f layout.Form) Part {
	i, array := f.Array()
	switch {
	case array:
		return ArrayPart(i)
	case f == layout.SafeTensors && o.Masks != nil:
		return Both
	case f == layout.SafeTensors && len(o.Arrays) > 0:
		return WithArrays
	case o.Masks != nil && (f == layout.MasksNPY || f == layout.MasksPNG):
		return Masks
	}
	return Images
}

// HasImages reports whether a part has images.
func (p Part) HasImages() bool { return p == Images || p == Both || p == WithArrays }

// HasMasks reports whether a part has masks.
func (p Part) HasMasks() bool { return p == Masks || p == Both }

// First is what of a sample is made first.
func (p Part) First() Part {
	if p.HasImages() {
		return Images
	}
	return p
}

// String is the batch's path below the mountpoint, without an extension.
func (k Key) String() string {
	return fmt.Sprintf("shard-%d/epoch-%d/%s", k.Shard, k.Epoch, layout.BatchName(k.Batch))
}

// FileName is the path of a batch in a form below the mountpoint.
func (o *Options) FileName(k Key, f layout.Form) string {
	return k.String() + "." + o.names().Ext(f)
}

// A Catalog says which batches exist, which samples they hold, and how large they are. Nothing
// changes during a mount, and its fields must not be changed.
type Catalog struct {
	Dataset     *dataset.Dataset
	Options     Options // including what follows from the dataset
	Plan        *shard.Plan
	MaxBatches  int    // upper bound for any shard and epoch
	Fingerprint string // covers everything that determines the bytes of batches

	Pages     dataset.Pages     // compressed pages of the dataset
	Converter *layout.Converter // of pixels to elements
	sized     bool              // the index knows the size of at least one sample
}

// New checks the options and builds the catalog of a dataset.
func New(ds *dataset.Dataset, o Options) (*Catalog, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Samples, o.Costs, o.Transform.Seed = int64(ds.Len()), nil, o.Seed
	if blocks := ds.Blocks(); blocks != nil {
		o.Blocks = blocks
	}
	if o.Shuffle {
		o.Costs = Costs(ds)
		if err := checkOrder(ds, o.Costs); err != nil {
			return nil, err
		}
	}
	plan, err := shard.New(o.Config)
	if err != nil {
		return nil, err
	}
	converter, err := layout.NewConverter(o.DType, o.Decoding.Color.Channels(), o.Normalize)
	if err != nil {
		return nil, err
	}
	// No epoch has more batches than the first: unpadded reading credits what it has read
	// ahead to later epochs.
	c := &Catalog{Dataset: ds, Options: o, Plan: plan, MaxBatches: plan.Batches(0, 0), Pages: ds.Pages(), Converter: converter}
	if err := c.checkSizes(); err != nil {
		return nil, err
	}
	if c.Options.Masks, err = o.Masks.prepared(); err != nil {
		return nil, err
	}
	if c.Options.Targets, err = o.Targets.prepared(c); err != nil {
		return nil, err
	}
	c.Options.Arrays = nil
	for _, a := range o.Arrays {
		if a, err = a.prepared(c); err != nil {
			return nil, err
		}
		c.Options.Arrays = append(c.Options.Arrays, a)
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%s\n%s\n", ds.Digest, plan.Version(), c.Decoder(), resample.Version)
	settings := c.Settings()
	if o.Partition != shard.Ranges { // a job may continue with another number of ranks: the steps are the same
		for _, name := range []string{"shards", "batch_size", "nodes"} {
			delete(settings, name)
		}
	}
	_ = json.NewEncoder(sum).Encode(settings)
	c.Fingerprint = hex.EncodeToString(sum.Sum(nil))
	return c, nil
}

// Decoder names the image decoders and their versions, since pixels depend on them.
func (c *Catalog) Decoder() string {
	if c.Options.NVJPEG == "" {
		return decode.Version()
	}
	return c.Options.NVJPEG + ", " + decode.Version()
}

// checkSizes rejects a fixed size that is too small for some image, and notes whether any size is
// known.
func (c *Catalog) checkSizes() error {
	t := &c.Options.Transform
	fixed := t.Height > 0 && t.Mode == resample.None
	for i := 0; i < c.Dataset.Len() && (fixed || !c.sized); i++ {
		h, w := c.SizeOf(int64(i))
		c.sized = c.sized || h > 0
		if fixed && (h > t.Height || w > t.Width) {
			return &option.Error{
				Field: "size", Rule: fmt.Sprintf("large enough for every image (%s is larger: %dx%d)", c.Dataset.Path(i), h, w),
				Value: fmt.Sprintf("%dx%d", t.Height, t.Width),
			}
		}
	}
	return nil
}

// Costs are the costs of all samples: a shuffled dataset orders the samples of each cost
// separately.
func Costs(ds *dataset.Dataset) *shard.Costs {
	format, cost := "", shard.Encoded // of the previous sample: most have the same format
	return shard.NewCosts(int64(ds.Len()), func(i int64) shard.Cost {
		if f := ds.Format(int(i)); f != format {
			format, cost = f, sample.CostOf(ds, int(i))
		}
		return cost
	})
}

// Settings are the options that determine the bytes of batches. The fingerprint covers them, except
// for how an elastic partition divides its steps.
func (c *Catalog) Settings() map[string]any {
	o := &c.Options
	settings := map[string]any{
		"shards": o.Shards, "batch_size": o.BatchSize, "shuffle": o.Shuffle, "seed": o.Seed,
		"stick_to_shard": o.StickToShard, "pad_last_batch": o.PadLastBatch, "last_batch": o.LastBatch.String(),
		"resize": o.Transform.Mode.String(), "height": o.Transform.Height, "width": o.Transform.Width, "channels": o.Decoding.Color.Channels(),
		"crop_area": o.Transform.CropArea, "crop_ratio": o.Transform.CropRatio, "flip": o.Transform.Flip, "pad_multiple": o.PadMultiple,
		"fill": o.Fill, "dtype": o.DType.String(), "mean": o.Normalize.Mean, "std": o.Normalize.Std, "layout": o.Layout.String(),
		"ignore_orientation": o.Decoding.IgnoreOrientation, "max_pixels": o.Decoding.MaxPixels, "on_error": o.OnError.String(),
	}
	if o.FullJPEGs { // absent when false, to keep fingerprints from before this setting
		settings["jpeg_scaling"] = false
	}
	if o.Transform.Mode == resample.CenterCrop {
		settings["resize_to"] = o.Transform.ResizeTo
	}
	o.addOrder(settings)
	if o.Masks != nil {
		settings["masks"] = o.Masks.settings()
	}
	if o.Targets != nil {
		settings["targets"] = o.Targets.settings()
	}
	if o.Arrays != nil {
		var list []map[string]any
		for _, a := range o.Arrays {
			list = append(list, a.settings())
		}
		settings["arrays"] = list
	}
	return settings
}

// addOrder adds the settings of special orders. Other orders keep their fingerprints.
func (o *Options) addOrder(settings map[string]any) {
	if o.Window > 0 {
		settings["window"] = o.Window
	}
	if o.Partition != shard.Ranges {
		settings["partition"], settings["global_batch"] = "elastic", o.Shards*o.BatchSize
	}
	if o.Partition == shard.Local {
		settings["placement"], settings["nodes"] = "local", cmp.Or(o.Nodes, o.Shards)
	}
	if o.Blocks != nil && (o.Window > 0 || o.Partition == shard.Local) {
		settings["blocks"] = digestOf(o.Blocks)
	}
}

// digestOf is a digest of numbers.
func digestOf(lists ...any) string {
	sum := sha256.New()
	for _, list := range lists {
		_ = binary.Write(sum, binary.LittleEndian, list) // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Exists reports whether there is such a batch.
func (c *Catalog) Exists(k Key) bool {
	return k.Shard >= 0 && k.Shard < c.Options.Shards && k.Epoch >= 0 && k.Epoch < c.Options.Epochs &&
		k.Batch >= 0 && k.Batch < c.Plan.Batches(k.Shard, k.Epoch)
}

// Next is the batch that follows k in its shard, in the same epoch or a later one.
func (c *Catalog) Next(k Key) (Key, bool) {
	if k.Batch++; k.Batch < c.Plan.Batches(k.Shard, k.Epoch) {
		return k, true
	}
	for k.Batch = 0; k.Epoch+1 < c.Options.Epochs; {
		if k.Epoch++; c.Plan.Batches(k.Shard, k.Epoch) > 0 {
			return k, true
		}
	}
	return Key{}, false
}

// Steps is how many batches to comes after from in reading order; negative if it comes before; 0 if
// the two differ in shard or part, or are more than most apart.
func (c *Catalog) Steps(from, to Key, most int) int {
	if from.Shard != to.Shard || from.Part != to.Part {
		return 0
	}
	n := c.Plan.BatchesBefore(to.Epoch) + int64(to.Batch) - c.Plan.BatchesBefore(from.Epoch) - int64(from.Batch)
	if n > int64(most) || n < int64(-most) {
		return 0
	}
	return int(n)
}

// Spec is the exact shape of a batch, in the mount's layout. If it has an Err, Open returns
// ErrTooBig.
func (c *Catalog) Spec(k Key) layout.Spec {
	if t := &c.Options.Transform; t.Height > 0 {
		n, _ := c.Plan.Size(k.Shard, k.Epoch, k.Batch)
		return c.spec(n, t.Height, t.Width)
	}
	slots, _ := c.Slots(k)
	return c.SpecOf(slots)
}

// Valid is the number of slots of a batch that are not padding.
func (c *Catalog) Valid(k Key) int {
	_, valid := c.Plan.Size(k.Shard, k.Epoch, k.Batch)
	return valid
}

// Size is the exact size in bytes of a batch in one of its forms except JSON, or
// math.MaxInt64 if no file can be that large.
func (c *Catalog) Size(k Key, f layout.Form) int64 {
	if f == layout.Text {
		n, _ := c.Plan.Size(k.Shard, k.Epoch, k.Batch)
		return int64(n) * int64(c.Options.Targets.line())
	}
	return layout.Size(f, c.Options.SpecIn(c.Spec(k), k, f))
}

// TensorForm is the form that holds just a tensor in the mount's layout.
func (c *Catalog) TensorForm() layout.Form {
	if c.Options.Layout == layout.NCHW {
		return layout.NCHWForm
	}
	return layout.NHWCForm
}

// MadeIn is the form that is made for a reader of f: pictures and forms on a GPU are copies.
func (c *Catalog) MadeIn(f layout.Form) layout.Form {
	switch f {
	case layout.PNG, layout.CUDA:
		return c.TensorForm()
	case layout.MasksPNG:
		return layout.MasksNPY
	}
	return f
}

// TensorSize is the size of the first batch as a tensor.
func (c *Catalog) TensorSize() int64 { return c.Size(Key{}, c.TensorForm()) }

// Slots returns the samples of a batch, and how many of them are not padding.
func (c *Catalog) Slots(k Key) (slots []shard.Slot, valid int) {
	return c.Plan.Batch(k.Shard, k.Epoch, k.Batch, make([]shard.Slot, 0, c.Options.BatchSize))
}

// SpecOf is the shape of a batch with these slots.
func (c *Catalog) SpecOf(slots []shard.Slot) layout.Spec {
	h, w := c.slotSize(slots)
	return c.spec(len(slots), h, w)
}

func (c *Catalog) spec(n, height, width int) layout.Spec {
	o := &c.Options
	// A batch that cannot exist still has a shape and a size; opening it returns the error.
	s, _ := layout.NewSpec(n, height, width, o.Decoding.Color.Channels(), o.DType, o.Layout)
	return s
}

// slotSize is the height and width of each slot. Samples of unknown size (unreadable when
// indexed) do not count. A batch of only such samples has the size of the replacement for its
// first sample.
func (c *Catalog) slotSize(slots []shard.Slot) (height, width int) {
	o := &c.Options
	if o.Transform.Height > 0 {
		return o.Transform.Height, o.Transform.Width
	}
	for _, s := range slots {
		h, w := c.SizeOf(s.ID)
		height, width = max(height, h), max(width, w)
	}
	if height == 0 && len(slots) > 0 && o.OnError == Replace && c.sized {
		for n := int64(1); height == 0; n++ {
			id, ok := c.Replacement(slots[0], n)
			if !ok {
				break
			}
			height, width = c.SizeOf(id)
		}
	}
	return roundUp(max(height, 1), o.PadMultiple), roundUp(max(width, 1), o.PadMultiple)
}

// Replacement is the nth candidate to replace a slot's sample, counted from 1, in order of
// preference: samples after it in the shard's range, then those from the beginning of the range.
// ok is false if there are fewer.
func (c *Catalog) Replacement(s shard.Slot, n int64) (id int64, ok bool) {
	lo, hi := c.Plan.RangeAt(s.Position)
	if n >= hi-lo {
		return 0, false
	}
	return c.Plan.ID(s.Epoch, lo+(s.Position-lo+n)%(hi-lo)), true
}

// SizeOf is the size of a sample by the index, or 0x0 if it is unknown or exceeds MaxPixels.
func (c *Catalog) SizeOf(id int64) (h, w int) {
	h, w = c.Dataset.Size(int(id), c.Options.Decoding.IgnoreOrientation)
	if int64(h)*int64(w) > c.Options.Decoding.MaxPixels {
		return 0, 0
	}
	return h, w
}

// Fits reports whether an image of this size fits a batch of this shape.
func (c *Catalog) Fits(spec layout.Spec, h, w int) bool {
	return c.Options.Transform.Mode != resample.None || h <= spec.H && w <= spec.W
}

// roundUp returns the least multiple of multiple that is at least n, for n >= 1.
func roundUp(n, multiple int) int { return ((n-1)/max(1, multiple) + 1) * max(1, multiple) }

// errUnread: the result depends on a sample that could not be read when the dataset was opened.
var errUnread = errors.New("the machine failed")

// Samples that the machine could not read when the dataset was opened have an unknown size and
// format. The bytes of batches must not depend on that. So anything that follows from the size or
// format is refused: an order of samples of several costs, and the shapes of batches.

// checkOrder refuses an order that depends on an unread sample's cost.
func checkOrder(ds *dataset.Dataset, costs *shard.Costs) error {
	for i := range ds.Len() {
		why := ds.Unread(i)
		if why == "" {
			continue
		}
		ext := strings.ToLower(path.Ext(ds.Path(i)))
		if costs.Count(shard.Encoded) == costs.Len() && !slices.Contains([]string{".bfs", ".bmp", ".ppm", ".pgm", ".pnm", ".pbm"}, ext) {
			continue // nothing suggests that it is raw or packed
		}
		return unread(ds, i, why, "and the order of a shuffled dataset with raw or packed images depends on its format")
	}
	return nil
}

// ShapeKnown refuses a form of a batch whose shape depends on an unread sample.
func (c *Catalog) ShapeKnown(slots []shard.Slot, f layout.Form) error {
	t := c.Options.Extent()
	if f.IsArray() || c.Options.Transform.Height > 0 && !(t.Boxes && (f == layout.SafeTensors || f.IsTarget() && !f.Large())) {
		return nil
	}
	for _, s := range slots {
		if why := c.Dataset.Unread(int(s.ID)); why != "" {
			return c.Unread(s.ID, why)
		}
	}
	return nil
}

// Unread is the error of a sample whose size is not known.
func (c *Catalog) Unread(id int64, why string) error {
	return unread(c.Dataset, int(id), why, "so its size is not known")
}

func unread(ds *dataset.Dataset, i int, why, so string) error {
	return fmt.Errorf("%w: %s: could not be read when the dataset was opened (%s), %s; mount again when the storage answers", errUnread, ds.Path(i), why, so)
}
