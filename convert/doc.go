// Package convert writes a dataset anew with a share of its samples stored raw, so that
// a training run reads more and decodes less.
//
// Decoding keeps the processors busy, reading raw pixels the storage. Somewhere between
// all encoded and all raw both are equally busy, which is as fast as it gets; finding
// that share is a profiler's work, making the dataset is done here. What is written is
// an ordinary dataset: image files in the same directories, with the same labels and in
// the same order, for batchfs and for anything else. The package stands beside the
// engine: it uses package dataset for what there is, sample to read and judge it as a
// mount does, decode and resample for pixels, and knows no batch and no mount.
//
// # What becomes of a sample
//
// A raw one is a BMP of 24 bits, or a binary PPM; a PGM where R=G=B in all pixels. It
// holds the pixels that package decode makes of the original in colour, upright, or
// what a mount would make of them with the same size and resize mode; orientation is
// thereby applied, once, as raw formats cannot say it. Its pixels are the same in RGB
// only: for a mount that decodes to gray, a raw copy of a JPEG in colour gives BT.601 of
// its RGB instead of the JPEG's own luma. Where a colour had to be clipped to become RGB,
// the two lie some dozen levels apart. Its permissions and modification time are the
// original's.
//
// All others are kept: hard links of the originals where the file system allows, else
// clones of their blocks, else copies. Hard links are the same file under another name,
// so whoever writes into the one changes the other. A file that is no image, or turns
// out to be corrupt, is kept as it is, and said so; one that cannot even be read
// becomes a symbolic link to where it is, so that it still counts.
//
// # Which samples are raw
//
// Of n samples, floor(R·n + 1/2) for a share R, those that were raw before included;
// more only where more of them were. They are spread over the classes: in each, R times
// its size, rounded down or up. Both hold at once, and for every R, because places are
// given out one after the other. The h-th is given out at time (h - 1/2)/n, and the
// j-th that a class of m samples takes is one between (j-1)/m and j/m; the class that
// must take one soonest goes first. That always works out, since in any span of time
// there are no more such windows than places. In a class, samples that are raw already
// come first, the others in the order of a hash of seed and path. So what a smaller R
// chooses is part of what a larger one does.
//
// A sample that was chosen and turns out to be corrupt gives its place to the next of
// its class, and so on until the number is right, or there are no more.
//
// # Names
//
// x.jpg becomes x.bmp, where the directory has nothing of that name, in capitals or
// not, and where it comes to stand in the same place when sorted by name; else
// x.jpg.bmp, else x.jpg~1.bmp, x.jpg-1.bmp and so on: beside x.jpg.png the tilde would
// come too late, the hyphen does not. Names depend on the directory alone, never on
// what is chosen. So a sample's number in a class directory stays, here and in
// torchvision. Only where the next name is the same one with little more than spaces
// behind it, or where there is no room for a longer name, may none fit between the
// neighbours; what is written is then still unique, and Plan.Moved says so. A manifest's
// paths are kept where they lie below its directory; others are moved below a directory
// of their own.
//
// # Interruption
//
// The tree grows in OUT.partial, beside its final place, and becomes OUT by one rename
// when it is complete and has reached the disk: there is no unfinished OUT. Files come
// into being under a name in a hidden directory and are moved to their own when whole.
// A file that says of what and with which settings the tree is made,
// .batchfs-convert.json, lies in it from the start and stays; it is also what a second
// run locks and holds its own settings against, before it goes on with whatever is not
// there yet. Size and modification time tell what is: so after a power cut file systems
// that record a size before its data is there would leave something behind, but ext4,
// XFS and Btrfs do not. Nothing about the result depends on how often it was
// interrupted, nor on the number of workers.
package convert
