// Package convert rewrites a dataset with a share of its samples stored raw, so that a training
// run reads more and decodes less.
//
// Decoding keeps the CPUs busy, reading raw pixels the storage. Throughput peaks at the share
// of raw samples that keeps both equally busy. A profiler finds that share; this package makes
// the dataset. The result is an ordinary dataset, for batchfs and anything else: image files in
// the same directories, with the same labels and in the same order. The package is independent
// of the engine: it uses dataset for the list of samples, sample to read and judge files as a
// mount does, and decode and resample for pixels. It knows nothing of batches or mounts.
//
// # Raw and kept samples
//
// A raw sample is a BMP of 24 bits per pixel or a binary PPM, or a PGM if R=G=B in all pixels.
// It holds the pixels that package decode makes of the original in color, upright, or what a
// mount would make of them with the same size and resize mode. Orientation is thereby applied
// once, because raw formats cannot express it. Only the RGB pixels are the same: for a mount
// that decodes to gray, a raw copy of a color JPEG yields BT.601 of its RGB instead of the
// JPEG's own luma. Where a color had to be clipped to become RGB, the two differ by some dozen
// levels. Permissions and modification time are the original's.
//
// All other samples are kept: as hard links to the originals where the file system allows it,
// else as clones of their blocks, else as copies. A hard link is the same file under another
// name, so writing to one changes the other. A file that is not an image, or turns out to be
// corrupt, is kept and reported; one that cannot even be read becomes a symbolic link to the
// original, so that it still counts.
//
// # Which samples are raw
//
// Of n samples, floor(R·n + 1/2) are raw for a share R, including those that already were; more
// only if more already were. They are spread over the classes: in each class, R times its size,
// rounded down or up. Both hold at once, for every R, because places are handed out one at a
// time. The h-th place is handed out at time (h - 1/2)/n, and a class of m samples takes its
// j-th place between (j-1)/m and j/m; the class with the earliest deadline goes first. This
// always works out, because no span of time contains more such windows than places. Within a
// class, samples that are already raw come first, the others in the order of a hash of seed and
// path. So the choice for a smaller R is a subset of the choice for a larger one.
//
// A chosen sample that turns out to be corrupt passes its place to the next sample of its
// class, and so on until the number is right or no samples are left.
//
// # Names
//
// x.jpg becomes x.bmp, if the directory has nothing of that name (ignoring case), and if it
// sorts to the same position; else x.jpg.bmp, else x.jpg~1.bmp, x.jpg-1.bmp and so on: next to
// x.jpg.png the tilde would sort too late, the hyphen does not. Names depend only on the
// directory, never on the choice of samples. So a sample keeps its number in a class directory,
// here and in torchvision. There may be no name that sorts between the neighbors if the next
// name is the same one followed by little more than spaces, or if there is no room for a longer
// name. The name is then still unique, and Plan.Moved counts it. A manifest's paths are kept if
// they lie below its directory; other paths move below a directory of their own.
//
// # Interruption
//
// The tree grows in OUT.partial, next to its final place, and becomes OUT with a single rename
// once it is complete and on disk: there is never an unfinished OUT. Files are created under a
// temporary name in a hidden directory and moved into place when complete. The marker file
// .batchfs-convert.json, which records the source and the settings, is written first and stays.
// A second run locks it and compares its own settings with it before it makes the missing
// files. Size and modification time decide whether a file is complete. After a power cut this
// fails on file systems that record a size before the data is on disk, but not on ext4, XFS and
// Btrfs. The result depends neither on how often the work was interrupted nor on the number of
// workers.
package convert
