// Package entries stores the entry points of a dataset's JPEGs: the places in each file where
// decoding can start. To this package an entry point is 8 bytes, and they are of a [File]: a path,
// a size and a modification time. It knows neither the index nor the numbers of samples.
//
// # The file
//
// There is one file beside each index, and it is never inside the dataset. It is a hash table of
// paths, and then, in the order in which they were made, the entry points. Numbers are
// little-endian.
//
//	header  256 bytes  mark, version, rule, samples and bytes that there is room for, CRC-32C
//	bucket  256 bytes  16 slots
//	slot     16 bytes  40 bits: offset of a record; 14 bits: how many entry points it has;
//	                   42 bits: tag; CRC-32C of everything that is known of the file
//	record             CRC-32C of the JPEG file; its entry points, 8 bytes each
//
// The rule says which places have entry points. The xxHash of a path chooses a bucket with its
// upper bits; the lower ones are the tag, of which hardly any two in a bucket are the same. So a
// later version of a file takes the slot of the earlier one. In a full bucket, some slot is
// overwritten: entry points that are lost cost only time. A file that can have none is known to
// have none, so there is no need to try again: its slot has the JPEG's CRC in place of an offset.
//
// A slot's checksum covers its record, the rule, and the path, size and time of the file. So it
// also shows when the slot is another file's or that of an earlier version, and one that a crash or
// a full disk left incomplete is like one that is not known.
//
// [Renew] makes the file anew when the dataset has outgrown it, or most of it is of no use any
// more.
//
// # Trust
//
// The file is input like any other. It is used only if others cannot have written it, the header
// is intact, and a record lies within the file. Otherwise it is made anew. The decoder still checks
// the entry points themselves: a checksum can be forged.
//
// # Reading
//
// [Store.Get] makes two small reads into the caller's memory and takes no lock. The file is not
// mapped: the page cache holds it either way, and if somebody truncated it, touching a mapping
// would end the process. While a read hangs, nothing is known: decoding does not need it.
//
// # Writing
//
// Several processes may add to one file. Entry points are appended by a single write to a
// descriptor with O_APPEND, which needs no lock. Their slots are written after that. Where two
// processes write the same slot, the later one stays, and the other's entry points are never used.
// They take up room until [Renew] leaves them behind. That is little: what others made is found a
// second later, so entry points are made again only by processes that read the same file within
// that second, or two files of one bucket at the same moment, or after the file was replaced.
//
// [Store.Put] only takes a note, which can be read at once. The notes are written when they take 64
// KiB, and otherwise about a second after the first one. A Store holds 128 KiB of notes at most,
// and nothing while nothing is added. A write that fails is logged and is the last one; reading
// continues.
package entries
