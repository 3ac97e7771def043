// Package cache keeps encoded samples in memory between epochs, under a policy
// it is told and a byte budget it is given.
//
// It takes the place of the kernel's page cache, whose hits come and go from
// batch to batch. It reads no file, decodes nothing, and knows neither batches
// nor the order of an epoch: whoever reads a sample asks here first, and offers
// what had to be read from storage. What a cached sample is worth depends on the
// file it came from being unchanged, so each is kept under the stamp its file had,
// and served only to who names the same one.
//
// # Policies
//
// Constant follows a [Plan] that says of every sample, when it is read in an
// epoch, whether the next epoch shall find it here; what the plan does not know yet is not
// kept, and counted. Each sample is labelled with
// the epoch that it waits for; when that epoch has read it, it stays for the one
// after or leaves, as the plan says. Epochs overlap, since one reader is ahead of
// another, and readers jump: a sample that waits for an epoch which is nowhere
// near what is being read gives way to what is wanted now.
//
// Static is CoorDL's policy: what is read first is kept until the cache is full,
// and stays. TinyLFU leaves the choice to ristretto, for reads that follow no
// plan: it decides over sample numbers and costs, the bytes stay here (lfu.go).
//
// # Memory
//
// Sizes of samples differ by orders of magnitude, and the budget is a hard limit
// on what the process really takes. So samples lie in pages, one anonymous mapping
// of them, reserved as address space and made real from its beginning: a sample
// is a chain of whole pages, and its end, which would waste half a page on
// average, a chain of crumbs, eighths of pages (arena.go). Nothing is ever moved,
// no space is lost between samples, and in the steady state, where as much leaves
// as enters, pages are reused as they are: no page fault, no system call and no
// allocation a sample.
//
// Everything is charged to the limit and to the [Budget]: pages, their links, the
// table of samples, the estimate of what ristretto takes. Pages go back to the
// system only by [Cache.Trim].
//
// # Concurrency
//
// One lock, held for look-ups and for linking pages; bytes are copied outside it.
// While a sample is being copied it is counted as read, and one that has to leave
// meanwhile leaves when the last reader is done: its pages are never reused under
// a reader's hands.
package cache
