// Package tier keeps data from an object store on a local disk, between the store and the cache in
// memory.
//
// # Two ways
//
// A tier with room for all of a dataset keeps parts of its objects: after a read ([Tier.Read]) that
// misses, the bytes and those around them are there.
//
// With less room, chance would decide which parts are there. Then the user says object by object
// what is kept ([Tier.Get], [Tier.Put], [Tier.Drop]). To the tier, a sample is then an object, with
// a name of its own, even if it lies in a larger object. The engine follows a plan in which every
// batch finds equally many samples in memory, and equally many others here, so that the store must
// send equally many for each; no sample is in both places. A sample moves from memory to disk if it
// is next needed there, and the other way round.
//
// # Extents
//
// The unit of keeping is an extent: an object of at most [ExtentBytes], or one of the pieces of
// that size of a larger one. Its key names the piece, which is the name of the file, and the
// object's version, which is in the file. So after an object has changed, each extent of the new
// version replaces one of the old version, once the store has delivered it. A program that reads
// small parts of large objects fetches a part that it needs early once more; the rest comes from
// the disk ([Tier.Read]).
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
// A file appears under its name when it is complete, and is never written again. Nothing is synced:
// an extent that a crash or a bad sector has damaged fails the check, is removed and counts as
// missing. So does an extent that the disk does not deliver. A full disk stops filling for a
// minute. No failure of the tier reaches a reader: the bytes then come from the store.
//
// # Room
//
// The limit is for all of DIR. Extents of unused datasets give way to those of a dataset in use,
// least recently used dataset first; the two ways count as two datasets. Within a dataset, extents
// that nobody has used since the tier was opened ([Tier.Renew]), or since other users left room
// ([Tier.PlanRoom]), give way if there is no other room: they belong to objects that are no longer
// in the dataset, or to another plan. Only if parts of objects are kept without room for all does
// nothing give way: any part is worth as much as another.
//
// A user that keeps objects by a plan must know how many there is room for. Each active plan gets
// room for the same share of what it chooses from ([Tier.Follow], [Tier.PlanRoom]).
//
// Objects are written in the background, without any reader waiting. Objects that come faster than
// the disk writes are not kept, and counted. An object that a plan keeps may come before the one
// that it replaces is dropped: without room, it waits for that.
//
// If a process is killed while it adds an extent, its size may stay counted. The first process to
// use DIR counts anew.
package tier
