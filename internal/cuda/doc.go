// Package cuda uses a GPU through NVIDIA's driver: memory, copies, kernels, and handing memory to
// other processes.
//
// The driver's library is opened at run time ([Open]); without it, the program still starts. Only
// this package imports gorgonia.org/cu, the binding it is built on. It needs the build tag cuda
// (scripts/build.sh sets it, see internal/dynlib); without the tag, Open returns [ErrNotBuilt], and
// nothing else can be reached.
//
// # Threads
//
// CUDA's calls apply to the context that is current on the calling operating system thread.
// [Device.Thread] binds the goroutine that calls it to a thread with the device's primary context,
// the one that other CUDA code in the process would use, too. Everything that a [Thread] makes
// belongs to that goroutine: the methods of Thread, Stream, Import, Module and Function may be
// called only there.
//
// # Memory
//
// Device memory is a [Pointer]; the code that allocates it frees it. A copy between it and host
// memory that is registered, or between two Pointers, happens later, when the stream comes to it.
// Until [Stream.Synchronize] has returned, the source must stay as it is, and the content of the
// destination is undefined. A copy from other host memory waits until the source may be reused, one
// to it until it is complete: correct, but slow. Host memory must not be on Go's heap, since the
// driver uses it after the call has returned.
//
// # JPEGs
//
// A [JPEGDecoder] decodes them with nvJPEG, another library of NVIDIA's, which is opened at run
// time, too, and has an engine of the GPU do the work where there is one. Its pixels are not those
// of other decoders, and not those of its own other versions and backends. It decodes whole images
// only. Regions would save little: all entropy-coded data up to their end has to be decoded anyway.
// And whether the pixels at their edges are those of the whole image is documented nowhere. What it
// skips without saying so is black. What the library allocates on the device is not accounted for.
//
// # Errors
//
// A call that fails returns an [Error] with CUDA's own name for it. What matters to callers can be
// asked by errors.Is: after [ErrMemory] others may give memory back, and the call can be tried
// again; after [ErrLost] nothing works on any device until the process is started again. Close,
// Free and Unregister are called once: what they release counts as released even if they fail.
package cuda
