// Package fusefs shows an engine's batches as files. It is the only package that
// knows FUSE: everything above it speaks of mounts, everything below of batches.
//
// # Nodes are numbers
//
// The tree is known before it is mounted: so many shards, so many epochs in each,
// so many batches in each of those, and every batch in every form. So a node is
// no object but a number (numbers.go): shard, epoch, batch and form in mixed
// radix. The number is the node id that the kernel is told and the inode number
// that users see. Looking a name up is arithmetic (tree.go), listing a directory
// is counting from the offset, in any order and from anywhere, and forgetting is
// free: the daemon keeps nothing for an inode, however many the kernel knows.
// The package therefore stands directly on fuse.RawFileSystem; go-fuse's tree of
// inodes would only be in the way.
//
// The tree never changes while it is mounted. Names, attributes and the absence
// of names are handed to the kernel for hours. What is below .batchfs changes all
// the time and is never cached.
//
// # Three ways of reading
//
// Which one serves a file follows from the file, and for large ones from a choice
// that is made once, before the mount (readpath.go), because all opens of one
// inode have to agree:
//
//   - large forms (tensors, contact sheets) by passthrough: the kernel reads and
//     maps the batch's own memory, the daemon sees the open and the close;
//   - large forms directly: the page cache is bypassed, and requests of up to 1 MiB
//     are answered from the batch's memory without a copy. Kernels before 6.6 cannot
//     map such files; there, they go through the page cache;
//   - documents and small arrays through the page cache, so that they can be
//     mapped everywhere. What is below .batchfs is rendered when it is opened.
//
// Only open waits, and only for the engine; the wait ends when the opener is
// interrupted, and nobody else's does. No lock is held meanwhile.
//
// All opens of one inode share one engine file and one backing id (openfiles.go):
// the kernel demands it, and it is how the mode of an inode cannot change while it
// is open.
//
// # What it refuses
//
// Everything that writes: the mount is read-only, and so is every method
// (readonly.go), because passthrough would let a writer through to the batch's
// memory. Errors of the engine become errno in one place (errno.go). A panic in a
// request is logged and becomes EIO; the mount lives on.
//
// The process that mounts must never touch its own mount: it would wait for
// itself. Nothing here does, and neither may its callers.
package fusefs
