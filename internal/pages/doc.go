// Package pages keeps what several samples are read from and what takes work to make: unpacked
// pages of Parquet, deflated members of zips, blocks of compressed MDS. It reads no files and
// unpacks nothing: the caller passes the function that loads a page.
//
// While one caller loads a page, the others that need it wait for it. Each holds the page while
// copying from it, so that samples of one batch share it whatever the policy. A page that nobody
// holds any more is offered to ristretto, which keeps what is wanted most within its limit, decides
// later, and refuses newcomers. With [Options].Once, where all uses of a page lie close together, a
// page is deleted after the last one instead.
//
// Whatever becomes of a page costs time only: it can be loaded again. So pages are the first to
// give way: the [Budget] is asked before each is allocated, a refusal is answered with pages that
// nobody holds, and where that is not enough, [Cache.Get] has none, and its caller does without.
// Nobody ever waits for room.
//
// Pages are anonymous mappings, outside Go's heap. A page is unmapped, and its bytes are returned
// to the budget, as soon as neither callers nor ristretto have it, which tells by OnExit. So the
// account is that of memory that is there.
package pages
