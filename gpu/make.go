package gpu

import "github.com/batchfs/batchfs/cuda"

// A Run is work for a GPU: bytes are copied there, nvJPEG decodes images, kernels run one after another, each with the
// address of these bytes as its parameter, and results are copied back.
type Run struct {
	Staging  []byte
	At       uint64  // where Staging goes
	Images   []Image // their pixels are undefined where nvJPEG refuses them
	Launches []Launch
	Back     []Back
}

// Image is a JPEG for nvJPEG.
type Image = cuda.JPEG

// Back is memory on the host that is filled from an address on the GPU.
type Back struct {
	To   []byte
	From uint64
}

// Host is how many bytes Make needs on the host: the staging buffer, Files, verdicts, and the tensor.
func (p *Plan) Host() int { return p.Staging + p.Files + p.verdictsRoom() + int(p.tensor.Spec.Bytes()) }

func (p *Plan) verdictsRoom() (n int) {
	take(&n, p.Verdicts())
	return n
}

// Device is how many bytes Make needs on the GPU: the staging buffer, Work, and the tensor.
func (p *Plan) Device() int { return p.Staging + p.Work + int(p.tensor.Spec.Bytes()) }

// Make makes the batch of a plan on the GPU. host has [Plan.Host] bytes, best registered, into which
// Put has written all samples. The tensor, without gaps, is a part of host; Make also returns which samples are not in
// it, as [Plan.Left] does. The error is one of Slot, or of the driver; unless it is ErrLost, the GPU no
// longer uses host.
func (d *Device) Make(p *Plan, host []byte) (tensor []byte, left []int, err error) {
	slot, err := d.Slot(int64(p.Device()))
	if err != nil {
		return nil, nil, err
	}
	defer slot.Release()
	staging := slot.Address()
	work := staging + uint64(p.Staging)
	batch := work + uint64(p.Work)
	p.Finish(host[:p.Staging], staging, work, batch)
	results := host[p.Staging+p.Files : p.Host()]
	verdicts, tensor := results[:p.Verdicts()], results[p.verdictsRoom():]
	run := Run{Staging: host[:p.Staging], At: staging, Images: p.Images(host, work), Launches: p.Launches(), Back: []Back{{verdicts, work}, {tensor, batch}}}
	if err := d.ask(func() error { return d.driver.Run(run) }); err != nil {
		return nil, nil, err
	}
	return tensor, p.Left(verdicts, run.Images), nil
}
