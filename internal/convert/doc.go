// Package convert rewrites a dataset with a share of its samples stored raw, and another share
// packed, so that a training run reads more and decodes less.
//
// The result is an ordinary dataset: image files in the same directories, with the same labels and
// in the same order. The package knows nothing of batches or mounts; it reads and judges files as a
// mount does (package sample).
//
// # Raw, packed and kept samples
//
// A raw sample is a BMP of 24 bits per pixel or a binary PPM, or a PGM if R=G=B in all pixels. It
// holds the RGB pixels of the original, upright, or resized as a mount with the same size and
// resize mode would resize them. So a mount that decodes to gray sees BT.601 of a color JPEG's RGB
// instead of its own luma. Permissions and modification time are the original's.
//
// A packed sample is what [decode.Decoder.Pack] makes of a file: it has the pixels and the
// orientation of the original, which batchfs unpack restores. Not every file has a packed form. A
// chosen file without one is kept, and counted.
//
// All other samples are kept: as hard links to the originals if possible, else as clones of their
// blocks, else as copies. A hard link is the same file under another name, so writing to one
// changes the other. A file that is corrupt is kept and reported; one that cannot even be read
// becomes a symbolic link to the original, so that it still counts.
//
// Samples in archives or in a store are copied instead; the symbolic link of an unreadable one then
// leads nowhere. A source with an order of its own, such as a WebDataset, becomes a directory with
// a manifest of that order, metadata.parquet. Its labels are class names only if sorting the names
// gives the dataset's numbers; otherwise, the names are in classes.txt.
//
// # Which samples are raw, and which are packed
//
// Of n samples, floor(R·n + 1/2) are raw for a share R, including those that already were; more
// only if more already were. They are the first of one ranking of all samples, so the choice for a
// smaller R is a subset of the choice for a larger one. In a class of m samples, those already raw
// rank first, then the others in the order of a hash of seed and path; the j-th has rank (j - u)/m,
// where u, from 0 to 1, staggers the classes. Each class thus has T times its size, rounded down or
// up, with the same T for all, unless it already has more or too many of its samples are corrupt. T
// is R for classes of equal sizes, and otherwise differs from R by less than 1 divided by the
// average size, since the total is exact. A chosen sample that turns out to be corrupt leaves the
// ranking, and the next of its class moves up.
//
// Then packed samples are chosen in the same way among the samples that are not raw; samples that
// turn out to have no packed form leave this ranking, too. If the share of raw samples is not 0,
// samples that were raw stay raw; otherwise they can be packed like others. The same applies to
// packed samples.
//
// # Names
//
// x.jpg becomes x.jpg.bmp or x.jpg.bfs, which sorts to the same position, so that a sample keeps
// its number in a class directory, here and, if nothing is packed, in torchvision. If any such name
// is taken, too long, or sorts after the next sample's, the dataset is refused with [ErrName],
// whichever samples are chosen. A manifest's paths are kept if they lie below its directory; other
// files move below the directory "outside".
//
// # Interruption
//
// The tree grows in OUT.partial, next to its final place, and becomes OUT with a single rename once
// it is complete and on disk. Files are made under a temporary name in a hidden directory and moved
// into place when complete. The marker file .batchfs-convert.json, which records the source and the
// settings, is written first and stays. A second run locks it, compares its own settings with it,
// and makes what is missing. A file is complete if its size and modification time are right; a
// packed one, if it has the size that its header gives. After a power cut this fails on file
// systems that record a size before the data is on disk, but not on ext4, XFS and Btrfs. The result
// depends neither on how often the work was interrupted nor on the number of workers.
//
// Several machines can make parts of the result at the same time: they share the lock, each has a
// directory for its unfinished files, and each leaves a mark when it is done. A run of everything
// then continues the tree, finds little left to do, and removes files of other choices that parts
// or earlier runs made.
package convert
