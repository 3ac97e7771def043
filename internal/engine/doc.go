// Package engine makes batches: which ones, in what order, with how many workers and in how
// much memory. It joins the packages beneath it and needs no file system, so it can be
// tested, measured and used as a library. docs/architecture.md shows the way of one batch.
//
// Its parts, each a type of its own:
//
//   - package catalog: which batches exist, what is in them and how large they are. Pure. [Budget]
//     divides the memory limit by it.
//   - package readahead: who reads what next. A stream is one roughly sequential reading of a
//     shard, by one process or several; the next batches of each are made ahead, into the next
//     epoch.
//   - batches: those that exist, and what becomes of them. schedule says which is made next.
//   - batchWorker: lays a batch out (samples, shape, memory) and, once all of its slots are done,
//     assembles it; it never waits in between. Copies of batches in other forms are made so, too.
//   - flow: filling slots. A load reads an item, a part of the sample of a slot of the most
//     important batch, and a drawer, one for each processor, makes the pixels of what is ready,
//     each in its place. So all work on the batch that an Open waits for, and memory depends on how
//     many batches exist, not on the number of workers. If an attempt at an item fails, another one
//     may follow it, the same way (outcome.go). window is how many samples are on their way,
//     ownReads when drawers read themselves, room where items wait for memory, and hungReads the
//     reads that hang, which others stand in for.
//   - device: batches on a GPU, whose memory has an account of its own. A batch of which the GPU
//     makes samples (gpuWorker) for readers there has no host memory once it is complete; its other
//     forms are copied back.
//   - readers: Opens that wait, for a batch, for memory in their turn, or for a copy.
//   - memory: the one allocator. Everything is charged to its ledger, which admits batches, loads
//     and drawings, each with all that it takes, before they start; reclaim says what gives way to
//     what, and eviction takes batches for others.
//   - badParts: what became of images, and of masks, that could not be read.
//   - caches: what the cache and a local disk keep of each epoch, as the planner plans in the
//     background. Nothing waits for it.
//
// A batch is wanted, in the making, ready, or failed. Only schedule.move changes that. If a batch
// is dropped, results still in flight for it are discarded when they arrive. Only writing into a
// slot pins its memory, from beginWriting to endWriting.
//
// Every error has one cause (failure.go). Only a fault of the file itself reaches OnError; a
// failure of the machine fails the batch, is logged with a hint, and is forgotten.
package engine
