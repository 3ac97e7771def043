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
// cannot be had (no CAP_SYS_ADMIN), a buffer is anonymous memory and has no
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
// memory is wanted.
//
// # What it costs
//
// Pages are charged to a Budget when they are allocated and given back when they
// are freed, whoever still looks at them: a buffer that a reader keeps mapped
// stays charged. The package knows nothing of batches, samples or FUSE.
package pinned
