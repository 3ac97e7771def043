//go:build cuda && linux && cgo && (amd64 || arm64)

package cuda

/*
#include "nvjpeg.h"

static nvjpegStatus_t decode(nvjpegHandle_t handle, nvjpegJpegState_t state, const unsigned char *const *data, const size_t *lengths,
			     const unsigned long long *to, const size_t *pitches, int n, cudaStream_t stream)
{
	nvjpegImage_t images[n];

	for (int i = 0; i < n; i++)
		images[i] = (nvjpegImage_t){{(unsigned char *)to[i]}, {pitches[i]}};
	return nvjpegDecodeBatched(handle, state, data, lengths, images, stream);
}
*/
import "C"

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/batchfs/batchfs/internal/dynlib"
)

const (
	oldestNVJPEG = 11_009 // the first version with everything that is used
	// mostJPEGs is how many JPEGs a mount decodes in one call. NVIDIA's header says that more than
	// 50 (before 12, 100) may be decoded in another way, in which kernels read the Huffman codes.
	mostJPEGs = 50
	// jpegThreads is how many processors nvJPEG may use if the hardware does not decode.
	jpegThreads = 4
)

// NVJPEGVersion opens the library nvJPEG, and returns its version. The error is ErrNoNVJPEG or
// ErrOldNVJPEG.
func NVJPEGVersion() (string, error) {
	if err := dynlib.OpenNVJPEG(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoNVJPEG, err)
	}
	var version [3]C.int
	const name = "nvjpegGetProperty"
	err := cmp.Or(
		jpegError(name, C.nvjpegGetProperty(C.MAJOR_VERSION, &version[0])),
		jpegError(name, C.nvjpegGetProperty(C.MINOR_VERSION, &version[1])),
		jpegError(name, C.nvjpegGetProperty(C.PATCH_LEVEL, &version[2])),
	)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d.%d.%d", version[0], version[1], version[2])
	if version[0]*1000+version[1] < oldestNVJPEG {
		return text, fmt.Errorf("%w: it is version %s, batchfs needs %d.%d", ErrOldNVJPEG, text, oldestNVJPEG/1000, oldestNVJPEG%1000)
	}
	return text, nil
}

// A JPEGDecoder decodes JPEGs with nvJPEG. It belongs to its Thread, as a Stream does.
type JPEGDecoder struct {
	Backend string // hardware, GPU-hybrid or default
	Most    int    // JPEGs that one call decodes; pixels may depend on it

	format   C.nvjpegOutputFormat_t
	hardware bool
	handle   C.nvjpegHandle_t
	state    C.nvjpegJpegState_t
	header   C.nvjpegJpegStream_t
	params   C.nvjpegDecodeParams_t
}

// NewJPEGDecoder returns a decoder to gray or RGB pixels. It uses the first of these backends that
// the device has: an engine for JPEGs (hardware), kernels for most of the work (GPU-hybrid), or
// nvJPEG's preference (default). only, if not empty, restricts the choice. The error may be
// ErrNoNVJPEG, ErrOldNVJPEG, ErrMemory or ErrNVJPEG.
func (t *Thread) NewJPEGDecoder(gray bool, only ...string) (*JPEGDecoder, error) {
	if _, err := NVJPEGVersion(); err != nil {
		return nil, err
	}
	d := &JPEGDecoder{format: C.NVJPEG_OUTPUT_RGBI, Most: mostJPEGs}
	if gray {
		d.format = C.NVJPEG_OUTPUT_Y
	}
	err := d.create(only)
	if err == nil {
		err = cmp.Or(
			jpegError("nvjpegJpegStateCreate", C.nvjpegJpegStateCreate(d.handle, &d.state)),
			jpegError("nvjpegJpegStreamCreate", C.nvjpegJpegStreamCreate(d.handle, &d.header)),
			jpegError("nvjpegDecodeParamsCreate", C.nvjpegDecodeParamsCreate(d.handle, &d.params)))
	}
	if err == nil {
		err = jpegError("nvjpegDecodeParamsSetOutputFormat", C.nvjpegDecodeParamsSetOutputFormat(d.params, d.format))
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// create makes the handle. It tries the next backend only if the device lacks one: pixels depend on
// the backend.
func (d *JPEGDecoder) create(only []string) error {
	status := C.nvjpegStatus_t(C.NVJPEG_STATUS_INVALID_PARAMETER)
	for _, b := range []struct {
		name string
		id   C.nvjpegBackend_t
	}{{"hardware", C.NVJPEG_BACKEND_HARDWARE}, {"GPU-hybrid", C.NVJPEG_BACKEND_GPU_HYBRID}, {"default", C.NVJPEG_BACKEND_DEFAULT}} {
		if len(only) > 0 && !slices.Contains(only, b.name) {
			continue
		}
		d.Backend, d.hardware = b.name, b.id == C.NVJPEG_BACKEND_HARDWARE
		status = C.nvjpegCreateEx(b.id, nil, nil, 0, &d.handle)
		if status != C.NVJPEG_STATUS_ARCH_MISMATCH && status != C.NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED {
			break
		}
	}
	return jpegError("nvjpegCreateEx", status)
}

// Close frees the decoder. The device must have decoded all images.
func (d *JPEGDecoder) Close() error {
	var errs [4]error
	if d.params != nil {
		errs[0] = jpegError("nvjpegDecodeParamsDestroy", C.nvjpegDecodeParamsDestroy(d.params))
	}
	if d.header != nil {
		errs[1] = jpegError("nvjpegJpegStreamDestroy", C.nvjpegJpegStreamDestroy(d.header))
	}
	if d.state != nil {
		errs[2] = jpegError("nvjpegJpegStateDestroy", C.nvjpegJpegStateDestroy(d.state))
	}
	if d.handle != nil {
		errs[3] = jpegError("nvjpegDestroy", C.nvjpegDestroy(d.handle))
	}
	return cmp.Or(errs[:]...)
}

// Decode makes a stream decode whole images, as they are stored. It returns once it knows which
// images nvJPEG refuses, or always fails at while it decodes others: it marks these, which depends
// on the image alone, and leaves their pixels undefined. All data must stay unchanged until the
// stream is done. Even after an error, the stream may still be at work. The error may be ErrMemory
// or ErrNVJPEG.
func (d *JPEGDecoder) Decode(s *Stream, images []JPEG) error {
	var taken []*JPEG
	for i := range images {
		images[i].Refused = false
		examine := func() (C.nvjpegStatus_t, string) { return d.examine(images[i].Data) }
		if err := d.judge(s, &images[i], examine); err != nil {
			return err
		}
		if images[i].Refused {
			continue
		}
		// Engines have been seen to skip an image silently. Its pixels must not be those of another
		// one.
		if err := s.fill(images[i].To, 0, int64(images[i].Pitch)*int64(images[i].Rows)); err != nil {
			return err
		}
		taken = append(taken, &images[i])
	}
	for len(taken) > 0 {
		n := min(len(taken), d.Most)
		if err := d.decodeSome(s, taken[:n]); err != nil {
			return err
		}
		if taken = taken[n:]; len(taken) > 0 { // the state serves one call at a time
			if err := s.Synchronize(); err != nil {
				return err
			}
		}
	}
	return nil
}

// examine reads the header of an image. It refuses kinds that are not decoded.
func (d *JPEGDecoder) examine(data []byte) (status C.nvjpegStatus_t, call string) {
	at, n := (*C.uchar)(address(data)), C.size_t(len(data))
	call, status = "nvjpegJpegStreamParseHeader", C.nvjpegJpegStreamParseHeader(d.handle, at, n, d.header)
	if status != C.NVJPEG_STATUS_SUCCESS || !d.hardware {
		return status, call
	}
	unsupported := C.int(0)
	call = "nvjpegDecodeBatchedSupportedEx"
	status = C.nvjpegDecodeBatchedSupportedEx(d.handle, d.header, d.params, &unsupported)
	if status == C.NVJPEG_STATUS_SUCCESS && unsupported != 0 {
		status = C.NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED
	}
	return status, call
}

// decodeSome decodes images together. If nvJPEG fails because one is bad, it decodes each by
// itself.
func (d *JPEGDecoder) decodeSome(s *Stream, images []*JPEG) error {
	if len(images) > 1 {
		status, call := d.decode(s, images)
		if !refusal(status) && !failure(status) {
			return jpegError(call, status)
		}
	}
	for i := range images {
		if err := s.Synchronize(); err != nil {
			return err
		}
		decode := func() (C.nvjpegStatus_t, string) { return d.decode(s, images[i:i+1]) }
		if err := d.judge(s, images[i], decode); err != nil {
			return err
		}
	}
	return nil
}

// judge finds out whether nvJPEG refuses an image, or fails for another reason. It tries the image
// twice. If nvJPEG still decodes another image afterwards, it refuses this one; otherwise the image
// is not at fault.
func (d *JPEGDecoder) judge(s *Stream, image *JPEG, try func() (C.nvjpegStatus_t, string)) error {
	var failed error
	for range 2 {
		status, call := try()
		if image.Refused = refusal(status); image.Refused {
			return nil
		}
		if failed = jpegError(call, status); !failure(status) {
			return failed
		}
		if err := d.renew(s); err != nil {
			return err
		}
	}
	good := plainJPEG()
	to, err := new(Thread).Alloc(plainSide * plainSide * 3)
	if err != nil {
		return err
	}
	status, _ := d.examine(good)
	if status == C.NVJPEG_STATUS_SUCCESS {
		status, _ = d.decode(s, []*JPEG{{Data: good, To: to, Pitch: plainSide * 3, Rows: plainSide}})
	}
	if image.Refused = status == C.NVJPEG_STATUS_SUCCESS; image.Refused {
		failed = nil
	}
	return errors.Join(failed, d.renew(s), new(Thread).Free(to))
}

// renew replaces objects that a failure may have damaged. The stream must be done.
func (d *JPEGDecoder) renew(s *Stream) error {
	if err := s.Synchronize(); err != nil {
		return err
	}
	var state C.nvjpegJpegState_t
	if err := jpegError("nvjpegJpegStateCreate", C.nvjpegJpegStateCreate(d.handle, &state)); err != nil {
		return err
	}
	d.state, state = state, d.state
	return jpegError("nvjpegJpegStateDestroy", C.nvjpegJpegStateDestroy(state))
}

const plainSide = 64

// plainJPEG is an image that nvJPEG decodes if it works at all.
var plainJPEG = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	black := image.NewYCbCr(image.Rect(0, 0, plainSide, plainSide), image.YCbCrSubsampleRatio420)
	_ = jpeg.Encode(&b, black, nil) // to memory
	return b.Bytes()
})

func (d *JPEGDecoder) decode(s *Stream, images []*JPEG) (status C.nvjpegStatus_t, call string) {
	n := len(images)
	if status := C.nvjpegDecodeBatchedInitialize(d.handle, d.state, C.int(n), jpegThreads, d.format); status != C.NVJPEG_STATUS_SUCCESS {
		return status, "nvjpegDecodeBatchedInitialize"
	}
	data, lengths := make([]*C.uchar, n), make([]C.size_t, n)
	to, pitches := make([]C.ulonglong, n), make([]C.size_t, n)
	var pinned runtime.Pinner // for tests, whose images are on Go's heap
	defer pinned.Unpin()
	for i, j := range images {
		data[i], lengths[i] = (*C.uchar)(address(j.Data)), C.size_t(len(j.Data))
		to[i], pitches[i] = C.ulonglong(j.To), C.size_t(j.Pitch)
		pinned.Pin(data[i])
	}
	return C.decode(d.handle, d.state, &data[0], &lengths[0], &to[0], &pitches[0], C.int(n), C.cudaStream_t(unsafe.Pointer(s.s.C()))), "nvjpegDecodeBatched"
}

// refusal reports whether a status is about the image.
func refusal(status C.nvjpegStatus_t) bool {
	switch status {
	case C.NVJPEG_STATUS_INVALID_PARAMETER, C.NVJPEG_STATUS_BAD_JPEG, C.NVJPEG_STATUS_JPEG_NOT_SUPPORTED,
		C.NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED, C.NVJPEG_STATUS_INCOMPLETE_BITSTREAM:
		return true
	}
	return false
}

// failure reports whether a status may or may not be about the image: the device's work failed,
// which any image might cause.
func failure(status C.nvjpegStatus_t) bool {
	return status == C.NVJPEG_STATUS_EXECUTION_FAILED || status == C.NVJPEG_STATUS_INTERNAL_ERROR
}

// jpegError returns the error of a call.
func jpegError(call string, status C.nvjpegStatus_t) error {
	switch status {
	case C.NVJPEG_STATUS_SUCCESS:
		return nil
	case C.NVJPEG_STATUS_ALLOCATOR_FAILURE:
		return fmt.Errorf("%w: %s", ErrMemory, call)
	case missing:
		return fmt.Errorf("%w: it lacks %s", ErrOldNVJPEG, call)
	}
	return fmt.Errorf("%w: %s returned %d", ErrNVJPEG, call, status)
}
