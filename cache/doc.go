// Package cache keeps encoded samples in memory between epochs, according to a policy and within a
// byte budget.
//
// It replaces the kernel's page cache, whose hits vary from batch to batch. It reads no files,
// decodes nothing, and knows neither batches nor the order of an epoch: a reader of a sample asks
// the cache first, and offers it the samples that it had to read from storage. A cached sample is
// valid only while its file is unchanged, so it is stored under the file's stamp and served only to
// readers with the same stamp.
//
// # Policies
//
// Constant follows a [Plan]. For every sample read in an epoch, the plan says whether the next
// epoch should find it here. Samples that the plan does not know about yet are counted and not
// kept. Each sample is labelled with the epoch it waits for. Once that epoch has read it, it stays
// for the next one or is evicted, as the plan says. Epochs overlap, because readers are at
// different points, and readers jump: a sample that waits for a distant epoch gives way to samples
// that are wanted now.
//
// Static is CoorDL's policy: the first samples read are kept until the cache is full, and stay.
// TinyLFU is for reads without a plan: ristretto lets a sample take the place of samples that are
// requested less often (tinylfu.go).
//
// All policies store samples in the same way. They differ in what they keep, and in what gives way
// if there is no room.
//
// # Memory
//
// Sample sizes differ by orders of magnitude, and the budget is a hard limit on the process's
// actual memory. So samples lie in pages of one anonymous mapping, which is reserved as address
// space and becomes usable from its beginning. A sample is a chain of whole pages. Its end, which
// would waste half a page on average, is a chain of crumbs, eighths of pages (arena.go). Samples
// never move, and no space is lost between them. In the steady state, when evictions match
// insertions, pages are reused as they are: no page fault, no system call and no allocation per
// sample.
//
// Everything is charged to the limit and to the [Budget]: pages, their links, the table of samples,
// and an estimate of ristretto's memory. Only [Cache.Trim] returns pages to the system.
//
// # Concurrency
//
// One lock is held for look-ups and for linking pages; bytes are copied outside it. A sample counts
// its readers while it is being copied. If it is evicted meanwhile, its last reader releases it, so
// its pages are never reused during a copy. With TinyLFU, one sample at a time is stored.
package cache
