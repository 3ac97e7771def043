// Package gen makes synthetic datasets: pictures that look enough like photos to be shown, and
// have the file size and decoding cost of photos.
//
// With it batchfs can be tried, tested and measured without a dataset: [Photo] stands for
// ImageNet, [Cityscape] for Cityscapes, and [Mixed] holds every kind of file that batchfs can
// read, including the corner cases of the formats. It knows nothing of the rest of batchfs. It
// writes its own JPEG, PNG, BMP, PNM and WebP files, because available encoders produce only the
// plainest form of each.
//
// A picture is a pure function of the seed, the kind and the picture's index: neither the number
// of workers nor that of pictures matters, and all arithmetic is on integers, so that the bytes
// are the same on every processor. Noise is looked up in tiles that are made once, pictures are
// painted in YCbCr as JPEG needs them, and each worker reuses its memory, so that thousands of
// photos take seconds.
//
// A dataset appears completely or not at all: it is made in a hidden directory inside its final
// place, which is removed if anything fails.
package gen
