package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/internal/gen"
)

func genCommand(c *console) *cli.Command {
	return command("gen", func(f *flagSet) runner {
		var o gen.Options
		f.derived("out", "none, it is required", "write to `DIR`, which must be missing or empty", place(&o.Dir, "a directory"))
		f.add("images", "100", "make `N` images", number(&o.Images, 1, math.MaxInt32))
		f.add("kind", "photo", "what they show: `photo|cityscape|mixed|coco`", named(&o.Kind))
		f.toggle(&o.Targets, "targets", false, "with --kind cityscape, masks and boxes of people, too, in the layout of Cityscapes; --kind coco always has boxes and polygons")
		f.add("classes", "10", "spread them over `N` class directories; 0: none", number(&o.Classes, 0, math.MaxInt32))
		f.derived("format", "that of the kind", "store them as `jpeg|png|bmp|ppm`", oneOf(&o.Format, gen.Formats()...))
		f.add("seed", "0", "derive the images from `N`", seed(&o.Seed))
		workerFlag(c, f, &o.Workers)
		return func(ctx context.Context, _ []string) error {
			switch {
			case f.Changed("classes"):
			case o.Annotated():
				o.Classes = 0
			default:
				o.Classes = min(o.Classes, o.Images)
			}
			switch {
			case o.Dir == "":
				return usage("--out is missing")
			case o.Targets && o.Kind != gen.Cityscape && o.Kind != gen.Coco:
				return usage("--targets needs --kind cityscape")
			case o.Annotated() && o.Classes > 0:
				return usage("--classes is not for --targets, which --kind coco always has: these images have splits instead")
			case o.Classes > o.Images:
				return badValue("classes", fmt.Sprintf("at most --images, %d", o.Images), strconv.Itoa(o.Classes))
			}
			bar := c.progress()
			o.Progress = bar.reporter("drawing", "images")
			err := gen.Write(ctx, o)
			bar.close()
			switch {
			case errors.Is(err, gen.ErrNotEmpty):
				return hint(err, "choose a new directory: --out DIR")
			case err == nil && interactive(c.out):
				c.printf("%s\n", genWords(o))
			}
			return err
		}
	})
}

// genWords describes the generated dataset.
func genWords(o gen.Options) string {
	words := fmt.Sprintf("%s: %s", displayName(o.Dir), count(o.Images, "image"))
	if o.Classes > 0 {
		words += " in " + count(o.Classes, "class")
	}
	if train, val := o.Splits(); val > 0 {
		words += fmt.Sprintf(", %d in train and %d in val", train, val)
	}
	return words
}
