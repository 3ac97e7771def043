// Package fusefs presents an engine's batches as files. It is the only package that knows
// FUSE: the code above it deals in mounts, the code below in batches.
//
// # Nodes are numbers
//
// The tree is known before it is mounted and does not change. So a node is not an object but a
// number (tree.go), the kernel's node id and the inode number: shard, epoch, batch and form in
// mixed radix. Looking up a name is arithmetic, a directory can be listed from any offset, and
// forgetting a node costs nothing: the daemon keeps no state per inode. The package is therefore
// built on fuse.RawFileSystem; go-fuse's tree of inodes would only be in the way. The kernel may
// cache names, attributes and the absence of names for hours, except below .batchfs, where files
// are rendered when they are opened.
//
// # Three ways of reading
//
//   - large forms (tensors, contact sheets) by passthrough: the kernel reads and maps the
//     batch's own memory, and the daemon only sees the open and the close;
//   - large forms directly: the page cache is bypassed, and requests of up to 1 MiB are
//     answered from the batch's memory without a copy. Kernels before 6.6 cannot map such
//     files, so there they go through the page cache;
//   - documents and small arrays through the page cache, so that they can be mapped
//     everywhere. A batch's .json is read like large forms of the second kind: what it says of
//     bad files changes, and each open shows one state of it.
//
// The form CUDA is a document that says where a batch is on a GPU, and the open file is the lease
// on it (lease.go): each open has its own, past the page cache.
//
// The choice between the first two is made before the mount, because all opens of an inode have to
// agree. They share one engine file and one backing id (open.go).
//
// Only open waits, and only for the engine. The wait ends when its opener is interrupted,
// without affecting other openers. No lock is held meanwhile.
//
// # What it refuses
//
// It refuses all writes: with passthrough, a writer would reach the batch's memory. Errors
// of the engine are translated to errno in one place (open.go). A panic in a request is
// logged and becomes EIO; the mount continues.
//
// The mounting process must never touch its own mount, because it would wait for itself.
// Nothing in this package does, and callers must not either.
//
// # Which kernels
//
// Linux 5.8 is the oldest: mounts are made and told apart by calls that came with it. Linux 6.6
// maps files that bypass the page cache, 6.8 gives mounts ids that are never reused, and 6.9 serves
// batches by passthrough.
package fusefs
