package main

import "github.com/urfave/cli/v2"

// Flags shared by several commands are defined here once, so that names, help texts and
// defaults agree. options.go reads them.

// setting makes a flag that takes a value. The parser keeps the text; options.go parses and
// checks it, so that refusals read alike for every flag. fallback is the default that the
// help shows.
func setting(category, name, fallback, text string) cli.Flag {
	return &cli.StringFlag{Category: category, Name: name, Value: fallback, DefaultText: fallback, Usage: text}
}

// derivedSetting makes a flag whose default is determined at run time. The help explains
// the default.
func derivedSetting(category, name, fallback, text string) cli.Flag {
	return &cli.StringFlag{Category: category, Name: name, DefaultText: fallback, Usage: text}
}

func switchFlag(category, name string, fallback bool, text string) cli.Flag {
	return &cli.BoolFlag{Category: category, Name: name, Value: fallback, Usage: text}
}

// The headings of the help, which sorts them by name.
const (
	aboutOrder    = "Batches and shards:"
	aboutDataset  = "Dataset:"
	aboutPipeline = "Memory and workers:"
	aboutPixels   = "Pixels:"
	aboutProcess  = "Process:"
	aboutTree     = "Tree:"
)

// orderFlags decide which samples are in a batch: mount, plan, bench.
func orderFlags() []cli.Flag {
	return []cli.Flag{
		setting(aboutOrder, "batch-size", "32", "`N` samples in a batch"),
		setting(aboutOrder, "shards", "1", "divide the dataset into `K` parts, one for each training process"),
		switchFlag(aboutOrder, "shuffle", false, "read in a pseudo-random order, a new one each epoch"),
		setting(aboutOrder, "seed", "0", "draw the order from `N`"),
		switchFlag(aboutOrder, "stick-to-shard", false, "a shard reads the same part in every epoch, instead of the next one"),
		switchFlag(aboutOrder, "pad-last-batch", true, "repeat a shard's last sample until all shards have the same number of batches"),
		setting(aboutOrder, "last-batch", "fill", "an incomplete last batch: `fill|partial|drop`"),
	}
}

// pixelFlags decide what a batch looks like: mount, bench.
func pixelFlags() []cli.Flag {
	return []cli.Flag{
		setting(aboutPixels, "resize", "none", "how images reach one size: `none|stretch|not-larger|not-smaller|random-resized-crop`"),
		derivedSetting(aboutPixels, "size", "the largest image in each batch", "make every batch of `HxW`, height and width"),
		setting(aboutPixels, "crop-area", "0.08,1", "random-resized-crop shows `LEAST,MOST` of an image's area"),
		setting(aboutPixels, "crop-ratio", "3/4,4/3", "and a window whose width/height is `LEAST,MOST`"),
		setting(aboutPixels, "flip", "0", "mirror an image horizontally with probability `P`"),
		setting(aboutPixels, "pad-multiple", "1", "where images keep their size, round a batch's height and width up to a multiple of `M`"),
		setting(aboutPixels, "jpeg-scaling", "on", "decode JPEGs that shrink by 4 or more at 1/2, 1/4 or 1/8 first: `on|off`; off is exact, and slower"),
		setting(aboutPixels, "color", "rgb", "decode to `rgb|gray`"),
		setting(aboutPixels, "fill", "0", "pixels beyond an image's own are `0..255`"),
		setting(aboutPixels, "dtype", "uint8", "elements are `uint8|float16|bfloat16|float32`"),
		derivedSetting(aboutPixels, "mean", "0", "subtract `R,G,B` from the 8-bit values"),
		derivedSetting(aboutPixels, "std", "1", "then divide by `R,G,B`"),
		setting(aboutPixels, "normalize", "none", "the usual mean and std: `none|imagenet`"),
		setting(aboutPixels, "layout", "nhwc", "dimensions of .npy and .safetensors: `nhwc|nchw`"),
		maxPixelsFlag(),
		orientationFlag(),
	}
}

func maxPixelsFlag() cli.Flag {
	return setting(aboutPixels, "max-pixels", "268435456", "an image of more than `N` pixels counts as corrupt")
}

func orientationFlag() cli.Flag {
	return switchFlag(aboutPixels, "ignore-orientation", false, "keep the stored pixels, whatever EXIF says about their orientation")
}

// pipelineFlags decide how batches are made. Except for on-error, they never change the
// content: mount, bench.
func pipelineFlags() []cli.Flag {
	return []cli.Flag{
		workersFlag(),
		derivedSetting(aboutPipeline, "batch-workers", "the queue depth", "make `N` batches at once"),
		setting(aboutPipeline, "prefetch-queue-depth", "2", "make `N` batches ahead of each reader"),
		derivedSetting(aboutPipeline, "memory-limit", "half of what is free", "use no more than `SIZE`, such as 8GiB"),
		setting(aboutPipeline, "memory-wait", "10s", "an open waits up to `TIME` for its turn when the memory limit is used up, then fails with ENOMEM"),
		derivedSetting(aboutPipeline, affinityFlag, "any CPU", "worker t works on CPU number t of `LIST`, such as 3,5,6,10; the rest near the GPU"),
		derivedSetting(aboutPipeline, hintsFlag, "what is needed", "have buffers of `SIZE` a sample from the start, or of batch=SIZE,input=SIZE,scratch=SIZE"),
		setting(aboutPipeline, "cache-size", "auto", "keep up to `SIZE` of encoded samples from one epoch to the next; 0 for none, auto for what --memory-limit leaves"),
		setting(aboutPipeline, "cache-policy", "constant", "keep what makes every batch hit equally often, what came first, or what is asked for most: `constant|static|tinylfu|none`"),
		localShardsFlag(aboutPipeline),
		setting(aboutPipeline, "on-error", "fail", "a sample that cannot be read: `fail|replace|zero`"),
		setting(aboutPipeline, "read-path", "auto", "how bytes reach readers: `auto|passthrough|direct`"),
	}
}

func localShardsFlag(category string) cli.Flag {
	return derivedSetting(category, "local-shards", "all", "shards `A-B` are the ones that are read on this machine: the cache keeps what they will read again")
}

// Flag names used in several places.
const (
	affinityFlag = "affinity"
	hintsFlag    = "bytes-per-sample"
)

func workersFlag() cli.Flag {
	return derivedSetting(aboutPipeline, "workers", "one per CPU", "work on `N` samples at once")
}

// datasetFlags say how a dataset is opened: every command that takes one.
func datasetFlags() []cli.Flag {
	return []cli.Flag{
		switchFlag(aboutDataset, "allow-outside", false, "let a manifest name files outside its directory"),
		setting(aboutDataset, "io", "direct", "read files `direct|buffered`: past the kernel's page cache, or through it"),
		derivedSetting(aboutDataset, "max-read-bandwidth", "no limit", "read no more than `SIZE` a second from storage, such as 500MB"),
	}
}

// treeFlags shape the mounted tree: mount.
func treeFlags() []cli.Flag {
	return []cli.Flag{
		setting(aboutTree, "epochs", "100", "show `N` epochs"),
		setting(aboutTree, "list", "nhwc,labels.npy,json", "list a batch as `FORM,...`; the other forms open by name"),
		switchFlag(aboutTree, "allow-other", false, "let other users read; permissions are checked"),
		derivedSetting(aboutTree, "uid", "yours", "the files belong to user `UID`"),
		derivedSetting(aboutTree, "gid", "yours", "the files belong to group `GID`"),
		setting(aboutTree, "file-mode", "0444", "permissions of the files, `OCTAL`"),
		setting(aboutTree, "dir-mode", "0555", "permissions of the directories, `OCTAL`"),
	}
}

// logFlags say what is logged and where: mount.
func logFlags() []cli.Flag {
	return []cli.Flag{
		setting(aboutProcess, "log-level", "info", "log what is at least `debug|info|warn|error`"),
		derivedSetting(aboutProcess, "log-file", "standard error", "append the log to `FILE`"),
		setting(aboutProcess, "log-format", "text", "log as `text|json`"),
	}
}

func jsonFlag(text string) cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: text}
}

func join(groups ...[]cli.Flag) []cli.Flag {
	var all []cli.Flag
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}
