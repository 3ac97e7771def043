// Package cuda uses a GPU through NVIDIA's driver: memory, copies, kernels, and handing memory to other processes.
//
// The driver's library is opened at run time ([Open]); without it, the program still starts. Only this package imports gorgonia.org/cu, the
// binding it is built on. It needs the build tag cuda (scripts/build.sh sets it, see internal/dynlib); without the tag, Open returns
// [ErrNotBuilt], and nothing else can be reached.
//
// # Threads
//
// CUDA's calls apply to the context that is current on the calling operating system thread. [Device.Thread] binds the goroutine that
// calls it to a thread with the device's primary context, the one that other CUDA code in the process would use, too. Everything that a
// [Thread] makes belongs to that goroutine: the methods of Thread, Stream, Event, Module and Function may be called only there.
//
// # Memory
//
// Device memory is a [Pointer]; the code that allocates it frees it. A copy between it and host memory that is registered, or between two Pointers,
// happens later, when the stream comes to it. Until an [Event] that was recorded after it is done, the source must stay as it is, and the
// content of the destination is undefined. A copy from other host memory waits until the source may be reused, one to it until it is complete: correct,
// but slow.
// Host memory must not be on Go's heap, since the driver uses it after the call has returned.
//
// # Errors
//
// A call that fails returns an [Error] with CUDA's own name for it. What matters to callers can be asked by errors.Is: after [ErrMemory] others may
// give memory back, and the call can be tried again; after [ErrLost] nothing works on any device until the process is started again.
// Close, Free and Unregister are called once: what they release counts as released even if they fail.
package cuda
