// Package fusefs presents an engine's batches as files. It is the only package that knows
// FUSE: the code above it deals in mounts, the code below in batches.
//
// # Nodes are numbers
//
// The tree is known before it is mounted: a fixed number of shards, epochs per shard and
// batches per epoch, and every batch in every form. So a node is not an object but a number
// (numbers.go): shard, epoch, batch and form in mixed radix. It serves as the kernel's node
// id and as the inode number. Looking up a name is arithmetic (tree.go), a directory can be
// listed from any offset by counting, and forgetting a node costs nothing: the daemon keeps
// no state per inode, however many the kernel knows. The package is therefore built
// directly on fuse.RawFileSystem; go-fuse's tree of inodes would only be in the way.
//
// The tree does not change while it is mounted. The kernel may cache names, attributes and
// the absence of names for hours. What is below .batchfs changes all the time and is never
// cached.
//
// # Three ways of reading
//
// The file determines which one serves it. For large files there is also a choice, made
// once before the mount (readpath.go), because all opens of an inode have to agree:
//
//   - large forms (tensors, contact sheets) by passthrough: the kernel reads and maps the
//     batch's own memory, and the daemon only sees the open and the close;
//   - large forms directly: the page cache is bypassed, and requests of up to 1 MiB are
//     answered from the batch's memory without a copy. Kernels before 6.6 cannot map such
//     files, so there they go through the page cache;
//   - documents and small arrays through the page cache, so that they can be mapped
//     everywhere. Files below .batchfs are rendered when they are opened.
//
// Only open waits, and only for the engine. The wait ends when its opener is interrupted,
// without affecting other openers. No lock is held meanwhile.
//
// All opens of one inode share one engine file and one backing id (openfiles.go). The
// kernel requires this, and it keeps the mode of an inode from changing while it is open.
//
// # What it refuses
//
// It refuses all writes. The mount is read-only, and so is every method (readonly.go),
// because passthrough would let a writer reach the batch's memory. Errors of the engine are
// translated to errno in one place (errno.go). A panic in a request is logged and becomes
// EIO; the mount continues.
//
// The mounting process must never touch its own mount, because it would wait for itself.
// Nothing in this package does, and callers must not either.
package fusefs
