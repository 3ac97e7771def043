package catalog

import (
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// A Description says what each slot of a batch shows.
type Description struct {
	Key     Key
	Spec    layout.Spec // in the mount's layout
	Valid   int         // slots before the padding
	Samples []Sample    // by slot
}

// A Sample is what one slot shows.
type Sample struct {
	ID            int64
	Label         int64      // -1: none
	Height, Width int32      // of the valid pixels
	Crop          [4]float64 // the part of the upright image shown: y, x, height, width
	Flip          bool
	Status        Status
	Reason        string // why the sample is corrupt, zeroed or replaced; the latter two with the bad file's path
}

// A Status says how a slot got its pixels.
type Status uint8

const (
	StatusOK       Status = iota
	StatusPadded          // it repeats the last sample
	StatusReplaced        // another sample replaces a bad one
	StatusZeroed          // it shows the fill value instead of a bad sample
	StatusCorrupt         // the last try to read it failed, so its batch does not open
)

// String is the status as written in documents.
func (s Status) String() string {
	return [...]string{"ok", "padded", "replaced", "zeroed", "corrupt"}[s]
}

// Meta is the description for the self-describing forms.
func (d Description) Meta() layout.Meta {
	n := len(d.Samples)
	m := layout.Meta{Valid: d.Valid, Labels: make([]int64, n), IDs: make([]int64, n), Sizes: make([][2]int32, n)}
	for i, s := range d.Samples {
		m.Labels[i], m.IDs[i], m.Sizes[i] = s.Label, s.ID, [2]int32{s.Height, s.Width}
	}
	return m
}

// Describe describes a batch in which no sample is bad.
func (c *Catalog) Describe(k Key) Description {
	return c.DescribeWith(k, func(shard.Slot) string { return "" })
}

// DescribeWith describes a batch without its pixels. bad returns why a sample cannot be read, or
// "".
func (c *Catalog) DescribeWith(k Key, bad func(shard.Slot) string) Description {
	slots, valid := c.Slots(k)
	d := Description{Key: k, Spec: c.SpecOf(slots), Valid: valid, Samples: make([]Sample, len(slots))}
	for i, s := range slots {
		var t resample.Transform
		if h, w := c.SizeOf(s.ID); h > 0 {
			t = c.Options.Transform.Choose(s.Epoch, s.ID, h, w)
		}
		d.Samples[i] = c.Sample(s.ID, t)
		if i >= valid {
			d.Samples[i].Status = StatusPadded
		} else if why := bad(s); why != "" {
			d.Samples[i].Status, d.Samples[i].Reason = StatusCorrupt, why
		}
	}
	return d
}

// Sample describes a slot that shows a sample under a transform.
func (c *Catalog) Sample(id int64, t resample.Transform) Sample {
	h, w := t.Size()
	return Sample{ID: id, Label: int64(c.Dataset.Label(int(id))), Height: int32(h), Width: int32(w), Crop: t.Crop, Flip: t.Flip}
}
