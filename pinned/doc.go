// Package pinned owns the memory of batches: large buffers that the kernel can
// serve by itself, pooled, and reused only when nobody can see them any more.
//
// # Where a batch lives
//
// A batch is decoded straight into the file that its readers will read. That
// file is an unnamed one (O_TMPFILE) on a private tmpfs which is mounted nowhere:
// made by fsopen and fsmount, held by one descriptor, gone with the last of its
// users. FUSE passthrough serves such a file without asking the daemon, and the
// file outlives the daemon for as long as a reader holds it. Where the tmpfs
// is refused (no CAP_SYS_ADMIN), a buffer is anonymous memory and has no
// descriptor; reads are then answered from it by the daemon.
//
// The size of the file is exactly the size of the batch, since a read through
// passthrough ends where the backing file ends, whatever stat said. Its pages are
// allocated before anyone writes to them: a tmpfs that is full would otherwise
// answer with SIGBUS, in the middle of a C decoder.
//
// # When a buffer is free
//
// Release says that the daemon has let go. Readers may still have the batch
// mapped, or hand its descriptor on, without the daemon hearing of it. The
// kernel knows: a write lease (F_SETLEASE, F_WRLCK) on a file is granted only
// when no other open file and no mapping through another open file exists. A
// released buffer therefore waits in the pool until the kernel grants that lease;
// only then is it handed out again. Nothing polls: the question is asked when
// memory is wanted. A process can hold thousands of batches mapped, and the question
// costs two system calls for each; so a Get asks about a few buffers only, those that
// would suit it best and those that were asked about longest ago. Where the budget
// refuses, and in Trim, all of them are asked about. Meanwhile the pool is not
// locked; the buffer in question is busy, which keeps everybody else off it.
//
// Where the kernel grants no leases (fs.leases-enable=0), which is found out when the
// store is made, buffers are freed as they are released: Stats.ReuseError. What a
// reader keeps mapped then is not charged any more; the size of the tmpfs is the
// limit to that.
//
// # Two refusals
//
// The budget refuses with ErrNoMemory, and whoever has something to give can change
// its mind. The kernel refuses with ErrKernel, of memory or descriptors, whatever the
// budget says; the pool has given up by then all that nobody sees. The two are told
// apart down to the Budget: memory that was held comes back by Release, a reservation
// that came to nothing by Cancel.
//
// # How buffers change their size
//
// The model is DALI's: page-locked memory only grows, ordinary memory also shrinks,
// and a Policy says by how much and when. What is held is rounded up to whole units:
// pages for batches, 64 KiB for host buffers; sizes are compared in whole units.
//
//	asked for                   batch buffer (Pool)      host buffer (Host)
//	nothing                     keeps what it holds      keeps what it holds
//	more than it holds          max(asked, held*growth)  max(asked, held*growth)
//	less than held*threshold    keeps what it holds      shrinks to the largest of the last 16 requests,
//	                                                     when even that is under held*threshold
//	anything else               keeps what it holds      keeps what it holds
//
// DALI looks at one request at a time. That is right for buffers of whole batches;
// here a worker's buffer sees one sample after another, and random crops ask for
// anything between a twelfth of an image and all of it. Shrinking and growing again
// at almost every sample took 1 to 5 % of a millisecond's decoding where it was
// done as cheaply as can be, since pages that come back have to be cleared, and up
// to 20 % by freeing and allocating. Looking back over 16 requests takes less than
// 0.3 %, and still gives back what one large sample took.
//
// A batch smaller than its buffer is the difficult case, as the file must end where
// the batch ends, and a tmpfs frees the pages past a new end. So the buffer reserves
// them again, past the end of the file (FALLOC_FL_KEEP_SIZE): a buffer that was
// large once can be so again without asking anybody for memory. Only the pages
// between the two ends have to be cleared anew, when they are used again; batches
// of one size, which is the steady state, reuse all of their pages as they are. The
// margin of a growth factor is reserved in the same way. Such spare memory is the
// first thing that Trim gives back, even while the buffer is in use.
//
// The host's growth factor holds for batches, too: their memory is the host's.
//
// # Page-locking
//
// Batch buffers are locked as they are mapped, before their pages are touched
// (MLOCK_ONFAULT), which is the cheapest moment: with huge pages it takes a few
// microseconds for a batch. A refusal (RLIMIT_MEMLOCK) is no error, since the batches
// are the same without; Stats keeps the reason, for whoever has to tell the user.
// The kernel is asked no more after that.
//
// # What it costs
//
// Pages are charged to a Budget before they are allocated, and given back when they
// are freed: a released buffer that a reader keeps mapped stays charged. Host buffers say beforehand what they will take (Host.Plan), and
// add up what they use in an Account. The package knows nothing of batches, samples
// or FUSE.
package pinned
