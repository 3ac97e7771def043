// Package gpu makes batches of pixels on a GPU: bit for bit those that package pixels and a
// layout.Writer make on a processor. Most of it is the host's half, and needs no GPU: it determines
// how much memory a batch takes, lays out the kernels' input in one staging buffer, and says which
// kernels to launch.
//
// # How a batch is made
//
// [NewPlan] takes the batch's samples, as package pixels planned them, and knows all sizes. The
// caller provides three pieces of memory: Staging, on the host and as much on the device; Work, on
// the device; and the batch's tensor, on the device. [Plan.Put] writes one sample into the staging
// buffer; different samples may be written at the same time. [Plan.Finish] then fills in the
// device's addresses, the buffer is copied to the device, and the kernels of [Plan.Launches] run in
// their order on one stream. Work and the tensor may contain anything before.
//
// [Device.Make] does everything after Put, in memory of its own on the GPU, or with the tensor in a
// slot of the caller's.
//
// The kernels decode baseline JPEGs ([Plan.Decodes]). If the caller prefers nvJPEG's speed to these
// pixels, nvJPEG does ([Sample]). The caller decodes all other images into the staging buffer, at
// [Plan.Pixels]. Often only the kernels find out that a JPEG is unusual: after they have run,
// Plan.left reads from Work which samples they left alone. Their slots contain anything, and must
// be made on the processor, whose verdict counts.
//
// # The kernels
//
// They are in kernels/, in C, and embedded as [PTX] that scripts/ptx.sh makes of them:
//
//	bfs_entropy    entropy-coded data to coefficients: one block of threads a JPEG
//	bfs_transform  coefficients to samples of Y, Cb and Cr
//	bfs_convert    samples to RGB or gray
//	bfs_place      pixels to elements of the tensor: cropped, resized, mirrored, upright, normalised
//
// One block of threads decodes a whole image, so a large image takes long, however many others are
// decoded meanwhile: callers should leave images of many megapixels to the processor.
//
// All arithmetic is on whole numbers. Weights come from resample, elements from layout, and the
// content of a JPEG's header, its tables and the arithmetic of its transform from decode, so
// nothing exists twice.
//
// The same source also compiles for processors: tests run it there, with the sanitizers. Tests run
// the PTX, too, through internal/ptx.
//
// # Memory
//
// A [Device] divides large allocations (slabs) into slots of one batch each. A slab is exported
// once, so another process maps it once, and finds later batches by their offsets. Slots are used
// again, but slabs are kept until [Device.Close], as DALI keeps a GPU's buffers: other processes
// keep them mapped between batches, and freeing a mapped slab is undefined. So a Device holds the
// most that it needed at any time, up to its limit.
//
// Other processes can write to all of a slab that they map. So the GPU's work memory (the staging
// buffer, Work, and tensors that are copied back) lies in separate slabs, which are never exported:
// a reader can spoil batches, and nothing else. These slabs are separate even if no memory can be
// exported, and are freed when batches need their room.
//
// Failures are of three kinds: [ErrFull] passes when slots are released; [ErrMemory] is the
// driver's refusal, or a batch that cannot fit; [ErrLost] lasts until the process ends, and the
// driver is not called any more.
package gpu
