// Package pages keeps data that several samples are read from and that takes work to make: unpacked
// pages of Parquet, deflated members of zips, blocks of compressed MDS. It reads no files and
// unpacks nothing: the caller passes the function that loads a page.
//
// While one caller loads a page, others that need it wait. Each holds the page while copying from
// it, so that samples of one batch share it whatever the policy. A page without holders is offered
// to ristretto, which keeps the most wanted pages within its limit, decides later, and refuses
// newcomers. With [Options].Once, for pages whose uses all lie close together, a page is deleted
// after the last use instead.
//
// Losing a page costs only time: it can be loaded again. So pages are the first to give way: the
// [Budget] is asked before each is allocated, and after a refusal, pages without holders are freed.
// If that is not enough, [Cache.Get] returns no page, and its caller does without. Nobody ever
// waits for room.
//
// Pages are anonymous mappings, outside Go's heap. A page is unmapped, and its bytes are returned
// to the budget, as soon as neither callers nor ristretto have it, which ristretto reports by
// OnExit. So the account matches the memory in use.
package pages
