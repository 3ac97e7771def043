// Package pinned owns the memory of batches: large, pooled buffers that the kernel can serve by
// itself, and that are reused only when nothing else can see them any more.
//
// # Where a batch lives
//
// A batch is decoded straight into the file that its readers will read. That file is unnamed
// (O_TMPFILE), on a private tmpfs that is not mounted anywhere: it is made by fsopen and fsmount,
// held by one descriptor, and disappears with its last user. FUSE passthrough serves such a file
// without involving the daemon, and the file outlives the daemon for as long as a reader holds it.
// If the tmpfs is refused (no CAP_SYS_ADMIN), a buffer is anonymous memory and has no descriptor;
// the daemon then answers reads from it.
//
// The file has exactly the size of the batch, since a read through passthrough ends where the
// backing file ends, whatever stat said. Its pages are allocated before anything writes to them:
// otherwise a full tmpfs would raise SIGBUS in the middle of a C decoder.
//
// # When a buffer is free
//
// Release says that the daemon is done with the buffer. Readers may still have the batch mapped, or
// pass its descriptor on, and the daemon does not learn of it. The kernel knows: it grants a write
// lease (F_SETLEASE, F_WRLCK) on a file only when no other open file and no mapping through another
// open file exists. A released buffer therefore stays in the pool, and is handed out again only
// once the kernel grants that lease. Nothing polls: the pool asks when memory is needed. Readers
// can hold thousands of batches mapped, and each query costs two system calls; so a Get asks about
// only a few buffers, those that fit best and those that were queried longest ago. If the budget
// refuses, and in Trim, the pool asks about all of them.
//
// If the kernel grants no leases (fs.leases-enable=0), which is tested when the store is made,
// buffers are freed on release: Stats.ReuseError. Memory that a reader keeps mapped is then no
// longer charged; only the size of the tmpfs limits it.
//
// # Two refusals
//
// If the budget refuses, the error is ErrNoMemory, and memory that its users give back can
// change the answer. If the kernel refuses memory or descriptors, the error is errKernel,
// whatever the budget says; by then the pool has freed everything that no reader sees.
//
// # How buffers change their size
//
// The model is DALI's: page-locked memory only grows, ordinary memory also shrinks, and a Policy
// says by how much and when. Buffers hold whole units: pages for batches, 64 KiB for host buffers;
// sizes are compared in whole units.
//
//	requested                   batch buffer (Pool)          host buffer (Host)
//	nothing                     keeps what it holds          keeps what it holds
//	more than it holds          max(requested, held*growth)  max(requested, held*growth)
//	less than held*threshold    keeps what it holds          shrinks to the largest of the last 16 requests,
//	                                                         if that is also less than held*threshold
//	anything else               keeps what it holds          keeps what it holds
//
// DALI looks at one request at a time, which is right for whole batches. A worker's buffer sees one
// sample after another; changing it at almost every one took up to a fifth of the decoding time.
//
// A batch smaller than its buffer is the difficult case: the file must end where the batch ends,
// and a tmpfs frees the pages past a new end. So the buffer reserves them again, past the end of
// the file (FALLOC_FL_KEEP_SIZE): a buffer that was once large can become so again without
// requesting memory. Only the pages between the two ends must be cleared when they are used again.
// The margin of a growth factor is reserved in the same way. Trim frees such spare memory even
// while the buffer is in use.
//
// # Page-locking
//
// Batch buffers are locked when they are mapped, before their pages are touched (MLOCK_ONFAULT).
// That is the cheapest moment: with huge pages it takes a few microseconds per batch. A refusal
// (RLIMIT_MEMLOCK) is not an error, since the batches are the same without locking; Stats keeps the
// reason to show to the user. After that the pool does not ask the kernel again.
//
// # GPUs
//
// A GPU copies from a buffer by itself once it is registered (Buffer.Register), which takes longer
// than the copy. So a buffer is registered before the first copy, and stays registered for later
// batches until its pages change: the GPU would go on reading the old ones. Unmapping or shortening
// the buffer changes its pages.
//
// # What it costs
//
// Pages are charged to a Budget before they are allocated, and the charge ends when they are freed:
// a released buffer that a reader keeps mapped stays charged. Host buffers announce how much they
// will take (Host.Plan), and sum up their use in an Account. The package knows nothing of batches,
// samples or FUSE.
package pinned
