// Package engine makes batches: which ones, ahead of whom, with how many workers
// and in how much memory. It is the one place where the parts of batchfs meet
// (dataset, shard, cache, decode, layout, pinned), and works without any file system, so
// that it can be tested, measured and used as a library.
//
// # From a name to bytes
//
// A Key names a batch: shard, epoch, index. shard says which samples it holds,
// the index of the dataset says how large they are; together they give the
// batch's exact shape before anything is decoded. Open makes the batch, or joins
// whoever makes it already, and returns its bytes when all of them are there.
//
// # The pipeline
//
// It is the DataLoader-Economic of the PyTorch RFC, in one address space:
//
//   - a batch worker does what no single sample can: it lays a batch out (which samples,
//     what shape, memory), publishes its slots, and, when all of them are done, assembles
//     it (repeated slots, headers). In between it waits for nothing;
//   - item workers take single samples from whatever batch matters most, and
//     decode each directly into its slot.
//
// So all item workers work on the batch that somebody waits for, the first batch
// included, and memory depends on how many batches exist, never on how many
// workers there are.
//
// What matters most is decided in one place (schedule.go): batches that somebody
// waits for, in the order of their asking; then prefetched ones, nearest to their
// reader first.
//
// A batch whose last reader was interrupted is given up after a moment (Engine.abandon).
// Whoever works for a batch does so for one turn of it; when the batch is dropped or gives
// its memory back the turn ends, and what was on its way is thrown away when it arrives.
// Only writing into a slot holds the memory: Engine.beginWriting to endWriting.
//
// # Streams
//
// A stream is one reading of a shard, roughly in order, by one process or several
// (stream.go). The engine keeps the next batches of each stream ready, at most
// PrefetchDepth of them in the making or waiting, runs on into the next epoch,
// and keeps the batch that was opened last, for a second form or a late rank. A
// stream that nobody reads any more gives its batches back.
//
// # From storage to a worker
//
// A worker asks the cache first, and reads from storage what is not there (cached.go).
// shard says which samples a cache of some size keeps from one epoch to the next, so
// that every batch finds as many there; a keeper has that computed in the background, an
// epoch ahead of its readers (keeper.go). Nobody waits for it: what is read before it is known is
// not kept. It works in memory that it reserves as it goes and that an open can take from it
// (keeperspace.go). Within a batch, samples that leave the cache, that come into it, and all
// others take turns, so that what it holds stays level. Of a raw image that the plan does not
// keep only the rows of its crop are read (loader.go). A worker that waits for storage leaves its
// processor to others: with more workers than processors reading and decoding overlap, and
// no more samples are decoded at once than there are processors.
//
// # Storage that hangs
//
// Nothing calls off a read that hangs in the kernel. Its worker is replaced after a second
// (storage.go), its batch hands out no more slots until the read returns, and Close leaves
// it behind. No other batch waits for it, and its batch's memory can be taken back.
//
// # Memory
//
// Everything is charged to one Ledger: batches, scratch, index, metadata. When it
// is full, batches that were read give way, then the cache and prefetched batches for one
// that somebody waits for (memory.go). A batch that gets no memory waits in the queue for
// its turn, in the order in which batches were asked for, and its opens wait at most
// MemoryWait. A refusal of the kernel is another matter: what is idle is given back, the
// kernel is asked once more, and then the open fails.
//
// # Errors
//
// Every error has one cause (failure.go). Only a file's own fault reaches OnError (sample.go);
// each bad file is reported once and remembered, under the identity that was read, until it
// changes (bad.go). What the machine did not manage fails the batch, is logged with what to
// do about it, and is forgotten: the next Open tries again.
//
// # Locks
//
// Engine.mu guards the table of batches, the streams and the schedule. No file is
// read, no pixel touched and no memory allocated for a batch while it is held.
package engine
