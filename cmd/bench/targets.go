package main

import "time"

// This file measures what targets cost: masks beside a second mount that serves them as images, and
// boxes beside images alone.

// aTurn is how long the contenders of this file read in each turn.
const aTurn = time.Second

// maskEpochs compares epochs of images with their masks with the same epochs of two mounts, one
// after the other: of the images, and of the masks as images.
func maskEpochs(b *bench) {
	for _, w := range []struct {
		what  string
		p     *pictures
		flags []string
	}{
		{"JPEG, random-resized-crop 224, flip, with masks", b.photos(), crops64},
		{"JPEG in its own size, with masks", b.photos(), own},
		{"PNG 2048x1024, random-resized-crop 224, flip, with masks", b.cityscapes(), shuffled(8, trainingCrop...)},
		{"PNG 2048x1024 in its own size, with masks", b.cityscapes(), large},
	} {
		with := warm(w.flags, annotate(b, w.p, "masks"))
		r := b.hold(w.what, 0,
			b.training(mount{dataset: w.p.Root(), flags: with, form: "npy", further: []string{"masks.npy"}, time: aTurn}),
			b.training(mount{dataset: w.p.Root(), flags: with, form: "safetensors", time: aTurn}),
			b.training(mount{dataset: w.p.Root(), flags: warm(w.flags), form: "npy", time: aTurn}),
			b.training(mount{dataset: w.p.masks, flags: warm(w.flags, []string{"--color", "gray"}), form: "npy", time: aTurn}),
		)
		apart := r.of(rate, 2).with(r.of(rate, 3), func(x, y float64) float64 { return 1 / (1/x + 1/y) })
		b.print(
			ratio(w.what+": one mount / two", rate.unit, r.of(rate, 0), apart).atLeast(0.9),
			ratio("    as .safetensors / two", rate.unit, r.of(rate, 1), apart).atLeast(0.9),
		)
	}
}

// boxEpochs compares epochs of images with their boxes with epochs of the images alone, which have
// labels instead.
func boxEpochs(b *bench) {
	const what = "JPEG, random-resized-crop 224, flip, with boxes"
	p := b.photos()
	alone := mount{
		dataset: p.Root(), flags: warm(crops64), read: byRead, form: "npy", time: aTurn,
		further: []string{"labels.npy"},
	}
	boxed := alone
	boxed.flags = append(annotate(b, p, "boxes"), alone.flags...)
	boxed.further = []string{"boxes.npy", "boxes.labels.npy", "boxes.offsets.npy"}
	r := b.hold(what, 2*b.rounds, b.training(boxed), b.training(alone))
	b.print(
		r.ratio(what+" / alone", rate, 0, 1).atLeast(0.98),
		r.ratio("    processor time an image", cost, 0, 1),
	)
}
