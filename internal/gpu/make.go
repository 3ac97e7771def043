package gpu

import "github.com/batchfs/batchfs/internal/cuda"

// A Run is work for a GPU, in this order: bytes are copied to the GPU, nvJPEG decodes images,
// kernels run one after another, each with At as its parameter, bytes are copied on the GPU, and
// results are copied back. Only Runs with kernels may have Images.
type Run struct {
	Put      []Put
	Images   []Image // the pixels of a refused image are undefined
	Launches []Launch
	At       uint64
	Within   []Within
	Back     []Back
}

// Put is memory on the host that is copied to an address on the GPU.
type Put struct {
	To   uint64
	From []byte
}

// Within is a number of bytes to copy between two addresses on the GPU. The ranges must not
// overlap.
type Within struct {
	To, From uint64
	Bytes    int64
}

// Image is a JPEG for nvJPEG.
type Image = cuda.JPEG

// Back is memory on the host that is filled from an address on the GPU.
type Back struct {
	To   []byte
	From uint64
}

// Host is how many bytes Make needs on the host: for the staging buffer, p.files, verdicts, and the
// tensor that it returns.
func (p *Plan) Host() int { return p.Staging + p.files + p.verdictsRoom() + p.returned() }

// returned is how many bytes of the tensor Make returns.
func (p *Plan) returned() int {
	if p.tensor.In != nil {
		return 0
	}
	return int(p.tensor.Spec.Bytes())
}

func (p *Plan) verdictsRoom() (n int) {
	allot(&n, p.verdictBytes())
	return n
}

// Device is how many bytes Make allocates on the GPU: for the staging buffer, Work, and the tensor
// that it returns.
func (p *Plan) Device() int { return p.Staging + p.Work + p.returned() }

// Make makes the batch of a plan on the GPU, in its tensor's slot. Without a slot, it returns the
// tensor as a part of host, without gaps. host has [Plan.Host] bytes, preferably registered, into
// which Put has written all samples. Make also returns which samples are not in the tensor, as
// Plan.left does. The error is one of Slot, or of the driver. Unless it is ErrLost, the GPU no
// longer uses host or the slot.
func (d *Device) Make(p *Plan, host []byte) (tensor []byte, left []int, err error) {
	slot, err := d.slot(int64(p.Device()), false)
	if err != nil {
		return nil, nil, err
	}
	defer slot.Release()
	staging := slot.Address()
	work := staging + uint64(p.Staging)
	batch := work + uint64(p.Work)
	if in := p.tensor.In; in != nil {
		batch = in.Address()
	}
	p.Finish(host[:p.Staging], staging, work, batch)
	results := host[p.Staging+p.files : p.Host()]
	verdicts, tensor := results[:p.verdictBytes()], results[p.verdictsRoom():]
	run := Run{
		Put: []Put{{staging, host[:p.Staging]}}, At: staging, Images: p.forNVJPEG(host, work), Launches: p.Launches(),
		Back: []Back{{verdicts, work}, {tensor, batch}},
	}
	if err := d.Run(run); err != nil {
		return nil, nil, err
	}
	return tensor, p.left(verdicts, run.Images), nil
}
