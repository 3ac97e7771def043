// Package archive finds the samples in files that hold many: tar, zip, Parquet, MDS, TFRecord and
// beton. Nothing is converted or copied. [Scan] finds, once, where the bytes of each sample are.
// Reading a sample later takes only its [Place]: a range of bytes, which are the image itself, or a
// block that [Place.Unpack] makes it from. The package opens no files; it is given an
// [io.ReaderAt].
//
// # What is a sample
//
// In a tar or a zip, samples are the files with the extension of an image. Their order and labels
// follow from their names, as in a directory. If a tar holds tars, as ImageNet's does, the name of
// an inner tar is a directory. Files that begin with a dot, or are in such a directory or in
// __MACOSX, are ignored. If files have the same name, the last one counts, as when the archive is
// extracted.
//
// In a WebDataset, files with the same name up to the first dot are one sample. A tar counts as a
// WebDataset if images have other files beside them which hold labels, or if they have other files
// beside them and are not in directories. The image is the first existing one of jpg, jpeg, png,
// webp, bmp, ppm, pgm and bfs; a packed one may also have both extensions, as x.jpg.bfs. The label
// is the text of .cls, a number or a name; or else "label", "cls" or "class" in .json. Two samples
// with one name are an error.
//
// In Parquet, samples are rows. Images are in a column of bytes or, as Hugging Face writes them, in
// one of bytes and path. Hugging Face's note about the columns says which have images and labels,
// and names the classes; without it, the usual names decide. If all paths are usable and differ,
// they are the samples' names. Another column of images may hold the masks, which are the samples
// of another scan; [ReadTable] says which, and what other columns there are.
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
// fields with labels. Over a network, [Options].Block should hold many samples, so that there are
// few reads; if blocks are read one after the other, several are read concurrently, within
// [Options].Room. DALI's .idx beside a WebDataset ([ReadDALI]) says where the headers are, so that
// they can be read ahead, skipping large files between them. It is not trusted: it has neither
// labels nor the sizes of images, and after a file was replaced by one of the same length, an old
// .idx would give images the wrong labels. So the tar is still read header by header, and a wrong
// .idx only costs reads.
//
// In Parquet, the lengths of images that are not compressed are read, but not the images;
// compressed pages are read and unpacked. So is a shard of MDS that is compressed as a whole;
// reading one of its samples unpacks all of it again. A zip has a table of contents, but only the
// header in front of a file says where exactly its bytes begin.
//
// # Trust
//
// Archives are untrusted input. Sizes are checked against that of the archive before memory is
// allocated, names may not lead out of it, and parts may not overlap where that would let a small
// archive claim to be a large one. A block may unpack to 1 GiB at most, and to no more than a block
// of its length can hold. A Place is checked again when it is used, so it may be stored where
// others can write.
package archive
