// Package gen makes synthetic datasets: pictures that look enough like photos to
// be shown, weigh what photos weigh, and cost what photos cost to decode.
//
// It exists so that batchfs can be tried, tested and measured where there is no
// dataset: [Photo] stands for ImageNet, [Cityscape] for Cityscapes, and [Mixed]
// holds every kind of file that batchfs can read, down to the corners of the
// formats. It knows nothing of the rest of batchfs, and writes its own JPEG, PNG,
// BMP, PNM and WebP files, because the encoders that are at hand make only the
// plainest of each.
//
// A picture is a pure function of the seed, the kind and the picture's index:
// neither the number of workers nor that of pictures matters, and all arithmetic is
// on integers, so that the bytes are the same on every processor. Noise is looked
// up in tiles that are made once, pictures are painted in YCbCr as JPEG wants them,
// and each worker reuses its memory, so that thousands of photos take seconds.
//
// A dataset appears whole or not at all: it is made in a hidden directory inside its
// final place, which disappears when anything goes wrong.
package gen
