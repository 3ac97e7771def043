// Package tier keeps what comes from an object store on a local disk, between the store and the
// cache in memory.
//
// # Two ways
//
// A tier with room for all of a dataset keeps parts of its objects: whatever a read ([Tier.Read])
// does not find, and what lies around it, is there from then on.
//
// With less room, which parts are there would be chance. Then its user says what is kept and what
// is not, object by object ([Tier.Get], [Tier.Put], [Tier.Drop]). To the tier, a sample is an
// object then, with a name of its own, even if it lies in a larger one. The engine follows a plan
// that has every batch find equally many samples in memory, and equally many others here, so that
// the store has to send equally many for each; no sample is in both places. What came from the
// memory moves to the disk if it is next needed there, and the other way round.
//
// # Extents
//
// What is kept at once is an extent: an object of at most [ExtentBytes], or one of the pieces of
// that size of a larger one. Its key names the piece, which is the name of the file, and the
// object's version, which is within. So when an object has changed, each extent of the new version
// takes the place of one of the old version, once the store has delivered it. A program that reads
// small parts of large objects fetches each part once more when it needs it early; the rest comes
// from the disk ([Tier.Read]).
//
//	DIR/used             8 bytes: how much all extents take; shared by the processes that use DIR
//	DIR/lock             locked by each of them
//	DIR/plans/<plan>     8 bytes: what it chooses from; locked by those that follow this plan
//	DIR/<dataset>/lock   locked by those that use this dataset
//	DIR/<dataset>/<2 digits>/<piece>
//
// An extent is a file of 4,096 bytes of header, then the object's bytes, padded to a multiple of
// 4,096 so that they can be read and written past the page cache. The header has the key, the size
// and a CRC-32C of each 16 KiB, so a small part can be checked without the rest.
//
// # What can go wrong
//
// A file appears under its name when it is complete, and is never written again. Nothing is
// synced: whatever a crash or a bad sector leaves fails the check, is removed and counts as
// missing, and so does an extent that the disk does not deliver. A full disk ends filling for a
// minute. No failure of the tier is ever a reader's: the bytes then come from the store.
//
// # Room
//
// The limit is for all of DIR. Extents of a dataset that nobody uses give way to those of one in
// use, least recently used dataset first; the two ways count as two datasets. Within a dataset,
// what nobody has used since the tier was opened ([Tier.Renew]), or since somebody else left room
// ([Tier.PlanRoom]), gives way if there is no other room: it is of objects that are no longer in
// the dataset, or of another plan. Only where parts of objects are kept without room for all does
// nothing give way: any part is worth as much as another.
//
// Those who keep objects by a plan must know how many there is room for. Each plan that is
// followed gets room for the same share of what it chooses from ([Tier.Follow], [Tier.PlanRoom]).
//
// Objects are written in the background. No reader waits for that: what comes faster than the disk
// takes it is not kept, and counted.
//
// A process that is killed while it adds an extent may leave up to that much counted too often.
// The first process to use DIR counts anew.
package tier
