// Package pages keeps what several samples are read from and what takes work to make: unpacked
// pages of Parquet, deflated members of zips, blocks of compressed MDS. It reads no files and
// unpacks nothing: the caller passes the function that loads a page.
//
// While one caller loads a page, the others that need it wait for it. Each holds the page while
// copying from it, so that samples of one batch share it whatever is kept. Of the pages that nobody
// holds, those that were used last are kept, within a limit: in a full shuffle, where all samples
// are read equally often, about the share is found that there is room for, whatever is chosen. With
// [Options].Once, where all uses of a page lie close together, a page is deleted after the last one.
//
// Whatever becomes of a page costs time only: it can be loaded again. So pages are the first to
// give way: the [Budget] is asked before each is allocated, a refusal is answered with pages that
// nobody holds, and where that is not enough, [Cache.Get] has none, and its caller does without.
// Nobody ever waits for room.
//
// Pages are anonymous mappings, outside Go's heap. A page is unmapped, and its bytes are returned
// to the budget, as soon as it is neither held nor kept. So the account is that of memory that is
// there.
package pages
