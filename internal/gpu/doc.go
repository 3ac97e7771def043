// Package gpu makes batches of pixels on a GPU: to the last bit those that package pixels and a
// layout.Writer make on a processor. Its greater part is the host's half, and needs no GPU: it says
// how much memory a batch takes, lays out in one staging buffer what the kernels read, and which
// kernels to launch.
//
// # How a batch is made
//
// [NewPlan] takes the batch's samples, as package pixels planned them, and knows all sizes. The
// caller provides three pieces of memory: Staging, on the host and as much on the device; Work, on
// the device; and the batch's tensor, on the device. [Plan.Put] writes one sample into the staging
// buffer; different ones may be written at the same time. [Plan.Finish] then fills in the device's
// addresses, the buffer is copied to the device, and the kernels of [Plan.Launches] run in their
// order on one stream. Work and the tensor may contain anything before.
//
// [Device.Make] does all that follows Put, in memory of its own on the GPU, or with the tensor in a
// slot of the caller's.
//
// Baseline JPEGs are decoded by the kernels ([Plan.Decodes]), or where the caller prefers its speed
// to these pixels, by nvJPEG ([Sample]). The caller decodes all others into the staging buffer,
// where [Plan.Pixels] says. What is unusual in a JPEG is often found by the kernels only: after
// they have run, [Plan.Left] reads from Work which samples they left alone. Their slots contain
// anything, and have to be made on the processor, whose verdict counts.
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
// One block of threads decodes all of an image, so a large one takes long, however many others are
// decoded meanwhile: callers should leave images of many megapixels to the processor.
//
// All arithmetic is on whole numbers. Weights come from resample, elements from layout, and what a
// JPEG's header says, its tables and the arithmetic of its transform from decode, so nothing exists
// twice.
//
// The same source is a program for processors: tests run it there, with the sanitizers, and the PTX
// as well, by way of internal/ptx.
//
// # Memory
//
// A [Device] divides large allocations (slabs) into slots of one batch each. A slab is exported
// once, so another process maps it once, and finds later batches by their offsets. Slots are used
// again, but slabs are kept until [Device.Close], as DALI keeps a GPU's buffers: other processes
// keep them mapped between batches, and freeing one that is mapped is undefined. So a Device holds
// the most that it needed at any time, which its limit bounds.
//
// Other processes can write to all of a slab that they map. So what the GPU works with (the staging
// buffer, Work, and tensors that are copied back) lies in slabs of its own, which are never
// exported: a reader can spoil batches, and nothing else. They exist where no memory can be
// exported, too, and are freed when batches need their room.
//
// Failures are of three kinds: [ErrFull] passes when slots are released; [ErrMemory] is the
// driver's refusal, or a batch that cannot fit; [ErrLost] lasts until the process ends, and the
// driver is not asked any more.
package gpu
