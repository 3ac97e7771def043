// Package resample brings images to the size that a training run needs: it resizes, crops and
// decides what is mirrored. It also makes the random choices.
//
// [Options.Choose] decides everything about one sample, as a [Transform], before any of its
// pixels exist: so the decoder only has to decode [Transform.Source], at a scale of
// 1/[Transform.Scale]. [Resize] then makes the result, row by row, into a [Sink], which places the
// rows and so does the mirroring. Neither holds state, reads a file, or knows about tensors.
//
// # Modes
//
// With h x w the upright source and H x W the requested size:
//
//	None               h x w, copied
//	Stretch            H x W, each axis by its own factor
//	NotLarger          both axes by min(H/h, W/w)
//	NotSmaller         both by max(H/h, W/w); of that the H x W pixels in the middle
//	CenterCrop         both by ResizeTo/min(h, w); of that the H x W pixels in the middle
//	RandomResizedCrop  H x W of a random window
//
// A resized side is rounded to nearest, halves up, and has at least one pixel; CenterCrop rounds
// the long side down, as torchvision's Resize does. The factor of each axis is then that of the
// rounded sizes, as in Pillow. (DALI moves the source's edges by a fraction of a pixel instead,
// unless its subpixel_scale is off.) All modes but None enlarge as well as reduce. NotSmaller and
// CenterCrop crop after resizing, so pixels just outside the window contribute to its border. Their
// crop starts at half of the excess: halves are rounded up in NotSmaller, as in DALI, and to even
// in CenterCrop, as in torchvision. RandomResizedCrop crops before it resizes, as in torchvision:
// pixels outside the window do not contribute.
//
// # The filter
//
// Antialiased triangle filtering with half-pixel centres: Pillow's BILINEAR, DALI's linear with
// antialias. Along an axis with n pixels for N outputs, one step is n/N pixels, output i has its
// centre c at (i + 1/2) steps from the start, and pixel j, whose centre is at j + 1/2, has the
// weight max(0, 1 - |j + 1/2 - c|/s), where s is one step but at least 1, divided by the sum of
// all weights. Pixels that do not exist have no weight.
//
// Coordinates are integers in units of 2^-33 pixels. Weights are rounded to integers that add up to
// 2^14 or more (see fixed). Rows are combined first, into lines of 15 bits (a pixel times 128),
// then the columns of a line, rounded to 8 bits at the end. So a uniform colour stays unchanged,
// and no result differs by more than one level from the rounded exact result.
//
// # Random choices (part of Version)
//
// Each is a pure function of (seed, epoch, sample): of four 32-bit words that Philox4x32-10
// makes from the counter (block, epoch, low half of sample, high half) under the key (low half
// of seed, high half). Let a be the first two words as one number of 64 bits, the second word
// above the first, and b the other two. Block 0 is for the flip, block 1 + t for try t = 0..9,
// block 11 for the place.
//
// Flip: the low 32 bits of a, as a number, are below probability·2^32. It is drawn in every
// mode, and is independent of the window.
//
// Window, after torchvision and DALI: a try draws the window's area uniformly from CropArea, and
// the logarithm of its ratio, width/height, uniformly from CropRatio. All arithmetic is on
// float64, rounded after every operation, in the order of the parentheses:
//
//	u(z)   = (z >> 11) / 2^53
//	area   = (h·w) · (A0 + (u(a)·(A1 - A0)))
//	ratio  = exp2(L0 + (u(b)·(L1 - L0)))       where L0 = log2(R0), L1 = log2(R1)
//	width  = floor(sqrt(area·ratio) + 0.5)
//	height = floor(sqrt(area/ratio) + 0.5)
//
// The first try that has a pixel and fits is used, with its corner at a random place: y =
// floor(a·(h - height + 1) / 2^64), x = floor(b·(w - width + 1) / 2^64). If none does, the
// window is the largest one in the middle whose ratio is within bounds: the whole image, but
// with height = floor(w/R0 + 0.5) where w/h < R0, or width = floor(h·R1 + 0.5) where w/h > R1,
// each at least 1 and at most the image's, and y = floor((h - height)/2), x likewise.
//
// Logarithms and exponentials differ between the libraries of different processors, so they are
// computed digit by digit. With r[0] = 2 and r[k] = sqrt(r[k-1]), log2 of m·2^e, 1 <= m < 2, is
// e + f, where f starts at 0 and for k = 1..48, if m >= r[k], m becomes m/r[k] and f grows by
// 2^-k. exp2(x) is p·2^floor(x), where p starts at 1 and is multiplied by r[k] for each k = 1..48
// for which the fraction of x has the digit 2^-k.
//
// # Decoding smaller
//
// Where both steps are at least 2·s pixels, [Transform.Scale] requests the image decoded at 1/s,
// s being 8, 4 or 2: the filter then still covers two of the smaller pixels on each side. The
// decoder's own reduction is not a triangle filter: on photographs with steps of just 2·s the mean
// difference was 0.6 to 2.6 levels; with half the margin it would be 1.9 to 6.2. A window's border
// may fall inside a smaller pixel; such pixels belong to the window.
//
// # Kernels
//
// The arithmetic exists once in Go and, in builds with cgo, in C: portable, and for x86 with
// SSSE3, AVX2, and AVX-512 with VBMI and VNNI. Sums of integers do not depend on their order, so
// all produce the same bytes. If the sink is in C too, one call makes and delivers all rows. Steps
// of more than 128 pixels are rare, and only Go handles them, in 64 bits.
package resample

// Version names the random choices and the filter. It changes with any change to the bytes or
// windows that result from the same options, and with nothing else.
const Version = "philox4x32-10/1 triangle/1"
