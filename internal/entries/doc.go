// Package entries stores the entry points of a dataset's JPEGs: the places in each file where
// decoding can start. To this package, an entry point is 8 bytes that belong to a [File]: a path, a
// size and a modification time. It knows neither the index nor the numbers of samples.
//
// # The file
//
// There is one file beside each index, and it is never inside the dataset. It is a hash table of
// paths, followed by the entry points in the order in which they were made. Numbers are
// little-endian.
//
//	header  256 bytes  mark, version, rule, room for how many samples and bytes, CRC-32C
//	bucket  256 bytes  16 slots
//	slot     16 bytes  40 bits: offset of a record; 14 bits: how many entry points it has;
//	                   42 bits: tag; CRC-32C of everything that is known of the file
//	record             CRC-32C of the JPEG file; its entry points, 8 bytes each
//
// The rule says which places have entry points. The upper bits of a path's xxHash choose a bucket,
// and the lower bits are the tag, which is hardly ever the same for two paths in a bucket. So a
// later version of a file takes the slot of the earlier one. In a full bucket, some slot is
// overwritten: lost entry points cost only time. A file that cannot have any is recorded as such,
// so there is no need to try again: its slot has the JPEG's CRC instead of an offset.
//
// A slot's checksum covers its record, the rule, and the path, size and time of the file. So it
// also reveals a slot of another file or of an earlier version, and a record that a crash or a full
// disk left incomplete counts as unknown.
//
// [Renew] rewrites the file when the dataset has outgrown it, or when most of it has become
// useless.
//
// # Trust
//
// The file is untrusted input. It is used only if others cannot have written it, the header is
// intact, and a record lies within the file. Otherwise it is made anew. The decoder still checks
// the entry points themselves: a checksum can be forged.
//
// # Reading
//
// [Store.Get] makes two small reads into the caller's memory and takes no lock. The file is not
// mapped: the page cache holds it either way, and if somebody truncated it, touching a mapping
// would end the process. While a read hangs, other reads find nothing: decoding works without entry
// points.
//
// # Writing
//
// Several processes may add to one file. A single write to a descriptor with O_APPEND appends entry
// points, which needs no lock. Their slots are written after that. If two processes write the same
// slot, the later write stays, and the other's entry points are never used. They take up room until
// [Renew] drops them. That is rare: a process finds another's entry points a second later, so it
// makes them again only if both read the same file within that second, or write two files of one
// bucket at the same moment, or after the file was replaced.
//
// [Store.Put] only takes a note, which can be read at once. Notes are written when they take 64
// KiB, and otherwise about a second after the first one. A Store holds 128 KiB of notes at most,
// and nothing while nothing is added. After a write fails, which is logged, nothing more is
// written; reading continues.
package entries
