package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/batchfs/batchfs/cuda"
	"github.com/batchfs/batchfs/decode"
)

const (
	nvjpegThreads = 4  // each with a decoder: while one reads headers, others decode
	nvjpegBatch   = 50 // images of one call, as package cuda divides them
)

// An nvjpeg decodes with NVIDIA's library, to RGB in the GPU's memory.
type nvjpeg struct {
	jobs    chan [][]byte
	results chan error // of jobs, and of each thread when it has started and when it has ended
	running int        // threads
}

// openNVJPEG starts threads that use one backend. The error says why it cannot decode these files.
func openNVJPEG(c *card, backend string, files [][]byte) (*nvjpeg, error) {
	n := &nvjpeg{make(chan [][]byte), make(chan error), 0}
	for range nvjpegThreads {
		go func() {
			n.results <- c.Thread(func(t *cuda.Thread) error { return n.work(t, backend) })
		}()
		if err := <-n.results; err != nil {
			return nil, errors.Join(err, n.close())
		}
		n.running++
	}
	if err := n.decode(files); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *nvjpeg) close() (err error) {
	close(n.jobs)
	for range n.running {
		err = errors.Join(err, <-n.results)
	}
	return err
}

// work is one thread.
func (n *nvjpeg) work(t *cuda.Thread, backend string) (err error) {
	var u undo
	defer u.all(&err)
	stream, err := t.NewStream()
	if err != nil {
		return err
	}
	u.later(stream.Close)
	decoder, err := t.NewJPEGDecoder(false, backend)
	if err != nil {
		return err
	}
	u.later(decoder.Close)
	var memory cuda.Pointer
	var size int64
	u.later(func() error {
		if size == 0 {
			return nil
		}
		return t.Free(memory)
	})
	n.results <- nil
	for files := range n.jobs {
		images, need, err := nvjpegImages(files)
		if err == nil && need > size {
			if size > 0 {
				err = t.Free(memory)
			}
			if size = 0; err == nil {
				if memory, err = t.Alloc(need); err == nil {
					size = need
				}
			}
		}
		if err == nil {
			err = decodeNVJPEG(decoder, stream, images, memory)
		}
		n.results <- err
	}
	return nil
}

// nvjpegImages are files, each with the offset of its pixels as their place, and the bytes that all take.
func nvjpegImages(files [][]byte) (images []cuda.JPEG, bytes int64, err error) {
	for _, data := range files {
		h, err := decode.ReadHeader(data, true)
		if err != nil {
			return nil, 0, err
		}
		images = append(images, cuda.JPEG{Data: data, To: cuda.Pointer(bytes), Pitch: h.Width * 3, Rows: h.Height})
		bytes += int64(h.Height*h.Width*3+255) &^ 255
	}
	return images, bytes, nil
}

func decodeNVJPEG(d *cuda.JPEGDecoder, stream *cuda.Stream, images []cuda.JPEG, memory cuda.Pointer) error {
	for i := range images {
		images[i].To += memory
	}
	if err := errors.Join(d.Decode(stream, images), stream.Synchronize()); err != nil {
		return err
	}
	if slices.ContainsFunc(images, func(j cuda.JPEG) bool { return j.Refused }) {
		return fmt.Errorf("nvJPEG (%s) does not decode all of the files, so its speed means nothing", d.Backend)
	}
	return nil
}

// decode decodes files.
func (n *nvjpeg) decode(files [][]byte) (err error) {
	batches := slices.Collect(slices.Chunk(files, nvjpegBatch))
	go func() {
		for _, b := range batches {
			n.jobs <- b
		}
	}()
	for range batches {
		err = errors.Join(err, <-n.results)
	}
	return err
}
