// Package engine makes batches. It decides which batches to make, in what order, with how
// many workers and in how much memory. It is the one place where the parts of batchfs meet
// (dataset, shard, cache, decode, layout, pinned). It needs no file system, so it can be
// tested, measured and used as a library.
//
// # From a name to bytes
//
// A Key names a batch: shard, epoch, index. Package shard says which samples the batch
// holds and the dataset's index says how large they are, which together give the batch's
// exact shape before anything is decoded. Open starts making the batch, or joins an Open
// that already did, and returns once all of its bytes are in place.
//
// # The pipeline
//
// The pipeline is the DataLoader-Economic of the PyTorch RFC, in one address space:
//
//   - a batch worker does what spans samples: it lays a batch out (which samples, what shape,
//     memory), publishes its slots and, once all of them are done, assembles it (repeated
//     slots, headers). It never waits in between;
//   - item workers take single samples from the most important batch and decode each one
//     directly into its slot.
//
// So all item workers work on the batch that an Open is waiting for, including the first
// batch, and memory use depends on how many batches exist, not on the number of workers.
//
// Priority is decided in one place (schedule.go): first the batches that an Open waits for,
// in the order of their first Open, then prefetched batches, nearest to their reader first.
//
// A batch whose last reader was interrupted is given up after a moment (Engine.abandon).
// Work on a batch belongs to one turn of that batch. Dropping the batch or taking its
// memory back ends the turn, and results still in flight are discarded when they arrive.
// Only writing into a slot pins the memory, from Engine.beginWriting to endWriting.
//
// # Streams
//
// A stream is one roughly sequential reading of a shard, by one process or several
// (stream.go). The engine keeps the next batches of each stream ready: at most
// PrefetchDepth of them are in the making or waiting to be read. It continues into the next
// epoch, and it keeps the batch that was opened last for a second form or a late rank. A
// stream that goes idle gives its batches back.
//
// # From storage to a worker
//
// A worker asks the cache first and reads what is missing from storage (cached.go). Package
// shard chooses the samples that a cache of a given size keeps from one epoch to the next,
// such that every batch gets the same number of hits. A keeper computes that choice in the
// background, one epoch ahead of the readers (keeper.go). Nothing waits for it: samples
// read before the choice is known are not kept. The keeper reserves its memory piece by
// piece, and an Open can take that memory from it (keeperspace.go).
//
// Within a batch, samples that leave the cache, samples that enter it and all others are
// interleaved, so that the size of the cache stays level. Of a raw image that the plan does
// not keep, only the rows of its crop are read (loader.go). A worker that waits for storage
// frees its processor: with more workers than processors, reading and decoding overlap, and
// the number of samples being decoded never exceeds the number of processors.
//
// # Storage that hangs
//
// A read that hangs in the kernel cannot be cancelled. Its worker is replaced after a
// second (storage.go), its batch hands out no more slots until the read returns, and Close
// leaves it behind. No other batch waits for it, and the memory of its batch can be taken
// back.
//
// # Memory
//
// Everything is charged to one ledger: batches, scratch, index, metadata. When it is full,
// batches that have been read give way first; then, for a batch that an Open waits for, the
// cache and prefetched batches (memory.go). A batch that gets no memory waits in the queue
// for its turn, in the order of the first Open of each batch, and its Opens wait at most
// MemoryWait. When the kernel itself refuses memory, idle memory is given back, the kernel
// is asked once more, and then the Open fails.
//
// # Errors
//
// Every error has one cause (failure.go). Only a fault of the file itself reaches OnError
// (sample.go). Each bad file is reported once and remembered, under the identity that was
// read, until it changes (bad.go). A failure of the machine fails the batch, is logged with
// a hint, and is forgotten: the next Open tries again.
//
// # Locks
//
// Engine.mu guards the table of batches, the streams and the schedule. While it is held, no
// file is read, no pixel is touched and no batch memory is allocated.
package engine
