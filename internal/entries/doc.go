// Package entries stores the entry points of a dataset's JPEGs: the places in each file where
// decoding can start. To this package an entry point is 8 bytes, and a sample is a row of the
// dataset's index, with the path, size and modification time of its file.
//
// # The file
//
// There is one file beside each index, and it is never inside the dataset. It has a header, 16
// bytes for each row, and then, in the order in which they were made, the entry points. Numbers
// are little-endian.
//
//	header  64 bytes   mark, version, rule, number of rows, key, CRC-32C of these
//	row     16 bytes   40 bits: offset of its entry points; 24 bits: how many there are;
//	                   CRC-32C of the JPEG file; CRC-32C of everything that the row says
//	points   8 bytes   each
//
// The rule says which places have entry points. The key names the index to which the row numbers
// belong. A row of zeros is not known. A row without entry points is of a file that can have none,
// so there is no need to try again.
//
// A row's checksum covers its entry points, the rule, the CRC of the JPEG, and the path, size and
// time of its file. So it also shows when the row is another file's or that of an earlier version,
// and a row that a crash or a full disk left incomplete is like one that is not known.
// [Carry] moves rows to where a new index has them.
//
// # Trust
//
// The file is input like any other. It is used only if others cannot have written it, the header
// is intact and belongs to the index, and a row lies within the file. Otherwise it is made anew.
// The decoder still checks the entry points themselves: a checksum can be forged.
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
// descriptor with O_APPEND, which needs no lock. Their rows are written after that. Where two
// processes make the same row, the later one stays, and the other's entry points are never used. They
// take up room until [Carry] leaves them behind. That is little: what others made is found a second
// later, so rows are made again only by processes that read the same file within that second, or after
// the file was replaced.
//
// [Store.Put] only takes a note. A goroutine writes the notes when there are 32 KiB of them, and
// about a second after the first one otherwise. What is not written yet can be read all the same.
// A Store holds at most two times 64 KiB of notes, about 400 KiB in all, and nothing while nothing
// is added. A write that fails is logged and is the last one; reading continues.
package entries
