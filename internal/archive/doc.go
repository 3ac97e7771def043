// Package archive finds the samples in files that hold many: tar, zip, Parquet, MDS, TFRecord and
// beton. Nothing is converted or copied. [Scan] says once where the bytes of each sample are. To
// read a sample later takes only its [Place]: a range of bytes, which are the image itself, or a
// block from which [Place.Unpack] makes it. The package opens no files; it is given an
// [io.ReaderAt].
//
// # What is a sample
//
// In a tar or a zip, samples are the files with the extension of an image. Their order and labels
// follow from their names, as in a directory. Where a tar holds tars, as ImageNet's does, the name
// of an inner one is a directory. Files that begin with a dot, or are in such a directory or in
// __MACOSX, are ignored. Of files with one name the last one counts, as when the archive is
// extracted.
//
// In a WebDataset, files that are named alike up to the first dot are one sample. A tar counts as a
// WebDataset if images have other files beside them which hold labels, or if they have other files
// beside them and are not in directories. The image is the first there is of jpg, jpeg, png, webp,
// bmp, ppm, pgm and bfs; a packed one may also have both extensions, as x.jpg.bfs. The label is the
// text of .cls, a number or a name; or else "label", "cls" or "class" in .json. Two samples with
// one name are an error.
//
// In Parquet, samples are rows. Images are in a column of bytes or, as Hugging Face writes them, in
// one of bytes and path. Hugging Face's note about the columns says which have images and labels,
// and the names of the classes; otherwise the usual names decide. If all paths are usable and
// differ, they are the samples' names. Another column of images may have their masks, as the
// samples of another scan; [ReadTable] says which, and what other columns there are.
//
// In a shard of MosaicML's MDS, the columns with the usual names are used; in TFRecord, the
// features of each Example that are named as in TensorFlow's datasets; in FFCV's beton, the first
// field of images. Samples without a name of their own are named by their number in the file.
//
// A sample that cannot be read, such as a link in a tar or a row without an image, keeps its
// position, and [Contents].Problems has the reason.
//
// # What is read
//
// A tar or a TFRecord has no table of contents: all headers are read, one after the other, and the
// fields with labels. Over a network, [Options].Block should be the size of many samples, so that
// there are few reads; where blocks are read one after the other, several are at once, as
// [Options].Room allows. DALI's .idx beside a WebDataset ([ReadDALI]) says where the headers are,
// so that they can be read ahead, and large files between them be left out. It is not believed: it
// has neither labels nor the sizes of images, and after one file was replaced by another of its
// length, an old one would give images the labels of others. So the tar is read as without it,
// header by header, and an .idx that is not true only costs reads.
//
// In Parquet, the lengths of images that are not compressed are read, but not the images;
// compressed pages are read and unpacked. So is a shard of MDS that is compressed as a whole, and
// to read one of its samples is to unpack all of it again. A zip has a table of contents, but only
// the header in front of a file says where exactly its bytes begin.
//
// # Trust
//
// Archives are input like any other. Sizes are checked against that of the archive before memory is
// allocated for them, names may not lead out of it, and nothing may overlap where that would let a
// small archive claim to be a large one. A block may be unpacked to 1 GiB at most, and to no more
// than a block of its length can hold. What a Place says is checked again when it is used, so it
// may be stored where others can write.
package archive
