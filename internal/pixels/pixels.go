// Package pixels joins decoding, cropping, resizing and mirroring: it turns an encoded image into
// the pixels that a [resample.Transform] asks for. Mounts, dataset conversion and verification use
// this one path.
//
// [Options.Plan] derives the work from the image's header and the transform, before there is memory
// for a single pixel: the stored region to decode, its scale, and how many bytes it takes.
// [Job.Run] then decodes that region, with any [Source]: straight into the [Target] if nothing else
// has to be done, or into memory that the caller provides, from where the resizer passes rows to
// the target's sink. [Job.Task] and [Job.Finish] are its two halves.
package pixels

import (
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
)

// Options say how images become pixels.
type Options struct {
	decode.Options
	FullJPEGs bool // decode JPEGs at full size even if they are shrunk; see resample.Transform.Scale
}

// A Source decodes regions of encoded images. *decode.Decoder is one, and documents the method.
type Source interface {
	DecodeRegion(dst decode.Image, data []byte, h decode.Header, r decode.Region, scale int) error
}

// A Target takes the pixels of one image: as rows, or in memory. If it has both, the image decides
// which is better. The memory belongs to the caller.
type Target struct {
	Sink   resample.Sink // mirrors if the transform says so
	Pix    []byte        // memory of unchanged rows, Stride bytes apart
	Stride int
}

// A Job is the work for one image. It is a plain value.
type Job struct {
	Memory int           // bytes that Run needs
	Region decode.Region // what it decodes: of the stored image, at its scale
	Scale  int           // 1, or 2, 4 or 8 for 1/2, 1/4 or 1/8

	Height, Width int                // of the region, upright
	Transform     resample.Transform // of the region

	options  decode.Options
	inPlace  bool // the target has memory for unchanged rows
	target   Target
	head     decode.Header
	channels int
}

// ScaleOf returns the scale at which a JPEG is decoded for a transform.
func (o Options) ScaleOf(t resample.Transform) int {
	if o.FullJPEGs {
		return 1
	}
	return t.Scale()
}

// Plan returns the work for an image with this header.
func (o Options) Plan(h decode.Header, t resample.Transform, to Target) Job {
	return o.PlanFor(h, t, to.Pix != nil).Into(to)
}

// PlanFor is Plan for a target that is not known yet. inPlace says whether it will have memory for
// unchanged rows; see Into.
func (o Options) PlanFor(h decode.Header, t resample.Transform, inPlace bool) Job {
	j := Job{options: o.Options, inPlace: inPlace, head: h, Scale: 1, channels: o.Color.Channels()}
	if h.Reduces() {
		j.Scale = o.ScaleOf(t)
	}
	if j.Scale > 1 {
		offY, offX := o.ScaleOffset(h, j.Scale)
		t = t.Reduced(j.Scale, offY, offX)
	}
	var y, x int
	y, x, j.Height, j.Width = t.Source()
	j.Region = o.StoredRegion(h, decode.Region{X: x, Y: y, W: j.Width, H: j.Height}, j.Scale)
	j.Transform = t.Moved(y, x)
	if !j.direct() {
		j.Memory = j.Height*j.Width*j.channels + resample.ScratchBytes(j.Transform, j.channels)
	}
	return j
}

// Into is the job with its target, which must have memory for unchanged rows if PlanFor said so.
func (j Job) Into(to Target) Job {
	j.target = to
	return j
}

// direct reports whether the decoded region is the result.
func (j *Job) direct() bool { return j.inPlace && j.Transform.Copies() }

// Run makes the pixels. memory has at least Memory bytes; its contents before and after do not
// matter. Errors are those of the source, or a mistake of the caller. After an error, the
// target's contents are undefined.
func (j *Job) Run(from Source, data, memory []byte) error {
	t := j.Task(data, memory)
	if err := from.DecodeRegion(t.To, t.Data, t.Header, t.Region, t.Scale); err != nil {
		return err
	}
	return j.Finish(memory)
}

// Task is the first part of Run, for callers who decode in another way.
func (j *Job) Task(data, memory []byte) decode.Task {
	to := decode.Image{Pix: j.target.Pix, Stride: j.target.Stride, Height: j.Height, Width: j.Width}
	if !j.direct() {
		to.Stride = j.Width * j.channels
		n := min(j.Height*to.Stride, len(memory))
		to.Pix = memory[:n:n]
	}
	return decode.Task{To: to, Data: data, Header: j.head, Region: j.Region, Scale: j.Scale}
}

// Finish is the rest of Run, once the Task is done.
func (j *Job) Finish(memory []byte) error {
	if j.direct() {
		return nil
	}
	sink := j.target.Sink
	if sink == nil {
		sink = &rows{j.target.Pix, j.target.Stride}
	}
	source := resample.Image{Pix: memory, Stride: j.Width * j.channels, Height: j.Height, Width: j.Width, Channels: j.channels}
	return resample.Resize(sink, source, j.Transform, memory[j.Height*source.Stride:], j.options.Kernel)
}

// Pack plans to decode the region elsewhere: see [decode.Options.Pack].
func (j *Job) Pack(data []byte, bits int) (p decode.Prepared, ok bool) {
	if j.Scale > 1 {
		return decode.Prepared{}, false
	}
	return j.options.Pack(data, j.head, j.Region, bits)
}

// Steps is the path through the upright pixels of the region, if it was decoded as stored, without
// gaps.
func (j *Job) Steps() (first, dx, dy int) {
	return j.options.Steps(j.head, j.Region, j.channels, j.Region.W*j.channels)
}

// Stored is the size of the whole image as it is stored.
func (j *Job) Stored() (height, width int) { return j.head.Height, j.head.Width }

// StepsInStored is like Steps, if the whole image was decoded.
func (j *Job) StepsInStored() (first, dx, dy int) {
	stride := j.head.Width * j.channels
	first, dx, dy = j.options.Steps(j.head, j.Region, j.channels, stride)
	return first + j.Region.Y*stride + j.Region.X*j.channels, dx, dy
}

// rows is a sink of unchanged rows.
type rows struct {
	pix    []byte
	stride int
}

func (r *rows) PutRow(y int, row []byte) { copy(r.pix[y*r.stride:], row) }
