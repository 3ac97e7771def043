// Package tier keeps parts of remote objects on a local disk, between an object store and the
// cache in memory.
//
// # Extents
//
// What is kept at once is an extent: an object of at most [ExtentBytes], or one of the pieces of
// that size of a larger one. Its [Key] names the piece, which is the name of the file, and the
// object's version, which is within. So when an object has changed, each extent of the new version
// takes the place of one of the old version, once the store has delivered it. A program that reads
// small parts of large objects fetches each part once more when it needs it early; the rest comes
// from the disk ([Tier.Read]).
//
//	DIR/used             8 bytes: how much all extents take; shared by the processes that use DIR
//	DIR/lock             locked by each of them
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
// use, least recently used dataset first. Within a dataset nothing gives way: in a random order,
// each epoch needs every sample once, and an extent is worth as much as any other. So each epoch after
// the first has the same hits. A batch's share of them varies as chance has it: with a share s of a
// dataset of single objects, a batch of b has b*s on average and a standard deviation of at most
// sqrt(b*s*(1-s)).
//
// A process that is killed while it adds an extent may leave up to that much counted too often.
// The first process to use DIR counts anew.
package tier
