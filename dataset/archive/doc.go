// Package archive finds the samples in files that hold many: tar, zip and Parquet.
// Nothing is converted or copied. [Scan] says where the bytes of each sample are, once, and whoever
// reads a sample later needs only its [Place]: a range of bytes, which are the image itself, or a compressed block
// from which [Place.Unpack] makes it. The package opens no files; it is given an [io.ReaderAt].
//
// # What is a sample
//
//	tar       Files with the extension of an image. Where the tar holds tars, as ImageNet's does, the name of
//	          an inner one is a directory. A tar that ends may be followed by another.
//	WebDataset  A tar in which files that are named alike up to the first dot are a sample. It is known by a
//	          file beside an image, if that is a label, or if no image is in a directory. The image is the first there is of
//	          jpg, jpeg, png, webp, bmp, ppm and pgm. The label is the text of .cls, a number or a name, or "label", "cls" or
//	          "class" in .json.
//	zip       Files with the extension of an image, stored or deflated.
//	Parquet   Rows. Images are in a column of bytes or, as Hugging Face writes them, of bytes and path. Its note about
//	          the columns says which one has images and which one labels, and the names of classes. Otherwise the usual
//	          names decide. A row is named by its path, if all paths of the file are usable and differ, and else by its number.
//
// Of files with one name the last one counts, as when the archive is extracted. In a WebDataset that is an error.
// Files that begin with a dot, or are in such a directory, are ignored, as in a directory. A sample that cannot be read, like a link or
// a row without an image, keeps its position, with a reason in [Contents].Problems.
//
// # What is read
//
// A tar has no table of contents, so its headers are read one after the other; a [Options].Block of the size
// of many samples makes few reads of it. Where the images in Parquet are not compressed, their lengths are read, and not the pages;
// compressed pages are read and unpacked. A zip has a table, but the exact place of each file is only in front of that file.
//
// # Trust
//
// Archives are input like any other. Sizes are checked against that of the archive before memory is allocated for them,
// names may not lead out of it, and nothing may overlap where that would let a small archive claim to be a large one.
// Compressed blocks may be unpacked to 1 GiB at most. What a Place says is checked again when it is used, so that it may be
// stored where others can write.
package archive
