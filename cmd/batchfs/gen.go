package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/dataset/gen"
)

func genCommand(c *console) *cli.Command {
	return command(cli.Command{
		Name:  "gen",
		Usage: "make a synthetic dataset",
		Description: "Writes images in class directories, the same for the same flags on every machine. photo: JPEG 500x375, quality\n" +
			"90, about 100 KB each, as in ImageNet; cityscape: PNG 2048x1024, about 2.3 MB each, as in Cityscapes; mixed: every\n" +
			"format and size that can be read. A batchfs built without cgo cannot write webp.",
		Flags: []cli.Flag{
			derivedSetting("", "out", "none", "write to `DIR`, which must be missing or empty"),
			setting("", "images", "100", "make `N` images"),
			setting("", "kind", "photo", "what they show: `photo|cityscape|mixed`"),
			setting("", "classes", "10", "spread them over `N` class directories; 0: none"),
			derivedSetting("", "format", "the kind's own", "store them as `jpeg|png|bmp|ppm|webp`"),
			setting("", "seed", "0", "draw them from `N`"),
			workersFlag(),
		},
		Action: func(ctx *cli.Context) error {
			o, err := c.genOptions(&flagValues{flags: ctx})
			if err != nil {
				return err
			}
			return c.gen(ctx.Context, o)
		},
	}, "batchfs gen --out photos --images 1000 --classes 10")
}

func (c *console) genOptions(v *flagValues) (gen.Options, error) {
	v.arguments()
	o := gen.Options{
		Dir: v.text("out"), Images: int(v.number("images", 1, math.MaxInt32)), Kind: choice(v, "kind", gen.Photo, gen.Cityscape, gen.Mixed),
		Classes: int(v.number("classes", 0, math.MaxInt32)), Format: v.text("format"), Seed: v.seed(), Workers: v.workers(c.machine),
	}
	if !v.given("classes") {
		o.Classes = min(o.Classes, o.Images)
	}
	switch {
	case o.Dir == "":
		v.refuse(usage("--out is missing"))
	case o.Format != "" && o.Kind == gen.Mixed:
		v.refuse(badValue("format", "left out with --kind mixed, which has every format", o.Format))
	case o.Format != "" && !slices.Contains(gen.Formats(), o.Format):
		v.refuse(badValue("format", oneOf(gen.Formats()), o.Format))
	case o.Classes > o.Images:
		v.refuse(badValue("classes", fmt.Sprintf("at most --images, %d", o.Images), strconv.Itoa(o.Classes)))
	}
	return o, v.err
}

func (c *console) gen(ctx context.Context, o gen.Options) error {
	bar := c.progress("drawing", "images")
	o.Progress = func(done, total int) { bar.report(int64(done), int64(total)) }
	err := gen.Write(ctx, o)
	bar.close()
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w; nothing was left behind", errInterrupted)
	case errors.Is(err, gen.ErrNotEmpty):
		return hint(err, "choose a new directory: --out DIR")
	case err == nil && interactive(c.out):
		c.printf("%s\n", genWords(o))
	}
	return err
}

// genWords describes the generated dataset.
func genWords(o gen.Options) string {
	words := fmt.Sprintf("%s: %s", shown(o.Dir), count(o.Images, "image"))
	if o.Classes > 0 {
		words += " in " + count(o.Classes, "class")
	}
	return words
}
