package engine

import (
	"errors"

	"github.com/batchfs/batchfs/decode"
)

// With Options.NVJPEG, only the file decides which decoder makes a sample's pixels, as the decoders
// differ. nvJPEG decodes it, at full size, unless decode.Ordinary or nvJPEG itself refuses, the
// sample is reduced too much, or it has too many pixels. All workers then use the GPU, and no speed
// is measured. A failure of the GPU, or no room there, is an error of the batch, not a reason to
// use a processor.

const (
	leastForNVJPEG = 8 // samples of a portion, if a batch has so many: a GPU's decoding engine handles about as many at once
	mostForNVJPEG  = 48

	mostNVJPEGBytes = 256 << 20 // of an image's pixels and its slot
)

var errUnplanned = errors.New("samples for nvJPEG could not be planned")

// mostHands is the most samples that a worker has the GPU make at once.
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
	bytes := int64(head.Height)*int64(head.Width)*int64(o.Decoding.Color.Channels()) + l.item.batch.spec.SampleBytes()
	return ok && o.NVJPEG != "" && bytes <= mostNVJPEGBytes && decode.Ordinary(l.sample.data)
}
