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
// [Device.Thread] binds the calling goroutine to a thread with the device's primary context, which
// other CUDA code in the process would use, too. Everything that a [Thread] makes belongs to that
// goroutine: the methods of Thread, Stream, Import, Module and Function may be called only there.
//
// # Memory
//
// Device memory is a [Pointer]; the code that allocates it frees it. A copy between device memory
// and registered host memory, or between two Pointers, happens later, when the stream reaches it.
// Until [Stream.Synchronize] has returned, the source must not change, and the content of the
// destination is undefined. With other host memory, copying from it waits until the source may be
// reused, and copying to it waits until the copy is complete: correct, but slow. Host memory must
// not be on Go's heap, since the driver uses it after the call has returned.
//
// # JPEGs
//
// A [JPEGDecoder] uses nvJPEG, another library of NVIDIA's, which is also opened at run time and
// uses the GPU's JPEG engine where there is one. Its pixels differ from those of other decoders,
// and of its own other versions and backends. It decodes whole images only. Regions would save
// little: all entropy-coded data up to their end must be decoded anyway, and no documentation says
// whether the pixels at their edges are those of the whole image. Images that it skips silently are
// black. Memory that the library allocates on the device is not accounted for.
//
// # Errors
//
// A call that fails returns an [Error] with CUDA's own name for it. Callers distinguish errors with
// errors.Is: after [ErrMemory], memory may be given back elsewhere, and the call can be tried
// again; after [ErrLost], nothing works on any device until the process is restarted. Close, Free
// and Unregister are called once: what they release counts as released even if they fail.
package cuda
