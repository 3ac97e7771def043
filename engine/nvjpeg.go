package engine

import (
	"errors"

	"github.com/batchfs/batchfs/decode"
)

// With Options.NVJPEG, the file alone decides which decoder makes a sample's pixels, as they
// differ: nvJPEG, at full size, unless decode.Ordinary or nvJPEG itself says no, the sample is
// reduced too much, or its pixels are too many. All workers use the GPU then, and no speed is
// measured. A failure of the GPU, or no room there, is an error of the batch, not a reason to use a
// processor.

const (
	leastForNVJPEG = 8 // samples of a portion, where a batch has so many: the engine of a GPU decodes about as many at once
	mostForNVJPEG  = 48

	mostNVJPEGBytes = 256 << 20 // of an image's pixels and its slot
)

var errUnplanned = errors.New("samples for nvJPEG could not be planned")

// mostHands is how many samples at most a worker has the GPU make at once.
func (d *device) mostHands() int {
	o := d.batches.opts
	if o.NVJPEG == "" {
		return min(o.BatchSize, mostOnDevice)
	}
	return min(max(o.BatchSize/o.Workers, leastForNVJPEG), mostForNVJPEG)
}

// isForNVJPEG reports whether nvJPEG is to decode the sample that was fetched.
func (l *load) isForNVJPEG() bool {
	o, head := l.batches.opts, &l.sample.head
	_, _, ok := l.sample.transform.Filters()
	bytes := int64(head.Height)*int64(head.Width)*int64(o.Decoding.Color.Channels()) + l.item.b.spec.SampleBytes()
	return ok && o.NVJPEG != "" && bytes <= mostNVJPEGBytes && decode.Ordinary(l.sample.data)
}

// drawOne makes the pixels of the sample that was fetched, whichever way that is to be done.
func (l *load) drawOne() error {
	for l.gpu != nil && l.gpu.takes(l) { // else it was planned when it was fetched
		var err error
		if l.batches.opts.NVJPEG != "" {
			_, err = l.gpu.makeOnDevice([]*load{l})
		}
		switch {
		case l.sample.made:
			return err
		case errors.Is(err, errNoRoom):
			err = l.batches.flow.room.awaitReturn(l)
		case err == nil:
			if err = l.plan(); err == nil {
				return l.drawAgain()
			} else if err == errNoRoom {
				err = l.batches.flow.room.await(l)
			}
		}
		if err == nil {
			err = l.obtain(l.sample.id, l.sample.status, true)
		}
		if err != nil {
			return err
		}
	}
	return l.drawAgain()
}
