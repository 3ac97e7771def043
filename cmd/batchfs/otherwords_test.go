package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestOtherWords: what users of DataLoader, DALI, FFCV, webdataset and Streaming type is answered
// with our words.
func TestOtherWords(t *testing.T) {
	const (
		elsewhere = "crop and flip are all the augmentations here: make others in the training program, from the batch that it reads"
		shardOf   = "rank R reads the directory shard-R of a mount with --shards K, one for each rank"
	)
	for line, want := range map[string]string{
		"mount p m --drop-last":                             "did you mean: --last-batch drop",
		"mount p m --drop_last=True":                        "did you mean: --last-batch drop",
		"mount p m --num-workers 8":                         "did you mean: --workers",
		"mount p m -j 8":                                    "did you mean: --workers",
		"mount p m --prefetch_factor 4":                     "did you mean: --prefetch-queue-depth",
		"mount p m --batch_size 4":                          "did you mean: --batch-size",
		"mount p m --no-shuffle":                            "did you mean: --shuffle=false",
		"mount p m --no-pad-last-batch":                     "did you mean: --pad-last-batch=false",
		"mount p m --image-size 224":                        "did you mean: --size HxW",
		"mount p m --size 224":                              "did you mean: --size 224x224",
		"mount p m --size 224,256":                          "did you mean: --size 224x256",
		"mount p m --size (224,256)":                        "did you mean: --size 224x256",
		"mount p m --size=224X":                             "batchfs mount --help",
		"mount p m --resize RandomResizedCrop":              "did you mean: --resize random-resized-crop",
		"mount p m --resize CenterCrop":                     "did you mean: --resize center-crop",
		"mount p m --resize not_larger":                     "did you mean: --resize not-larger",
		"mount p m --center-crop 224":                       "did you mean: --resize center-crop",
		"mount p m --random-horizontal-flip":                "did you mean: --flip 0.5",
		"mount p m --flip true":                             "did you mean: --flip 0.5",
		"mount p m --dtype fp16":                            "did you mean: --dtype float16",
		"mount p m --dtype half":                            "did you mean: --dtype float16",
		"mount p m --dtype torch.float16":                   "did you mean: --dtype float16",
		"mount p m --dtype bf16":                            "did you mean: --dtype bfloat16",
		"mount p m --dtype FLOAT":                           "did you mean: --dtype float32",
		"mount p m --layout NCHW":                           "did you mean: --layout nchw",
		"mount p m --layout CHW":                            "did you mean: --layout nchw",
		"mount p m --channels-last":                         "did you mean: --layout nhwc",
		"mount p m --last-batch DROP":                       "did you mean: --last-batch drop",
		"mount p m --on-error ignore":                       "did you mean: --on-error replace",
		"mount p m --random_shuffle":                        "did you mean: --shuffle",
		"mount p m --initial-fill 1024":                     "did you mean: --shuffle=window=W",
		"mount p m --num-shards 4":                          "did you mean: --shards",
		"mount p m --cache-limit 8GiB":                      "did you mean: --cache-size",
		"mount p m --os-cache":                              "did you mean: --io buffered",
		"mount p m --color-jitter 0.4":                      elsewhere,
		"mount p m --ColorJitter":                           elsewhere,
		"mount p m --mixup 0.2":                             elsewhere,
		"mount p m --rank 3":                                shardOf,
		"mount p m --world-size 8":                          shardOf,
		"mount p m --shard-id 3":                            shardOf,
		"bench p --rank 3":                                  shardOf,
		"mount p m --pin-memory":                            "not needed: a batch is a file, which can be mapped, and copied to a GPU from there",
		"mount --remote s3://bucket/train mnt":              "DATASET is an argument, a path or a URL: batchfs mount s3://bucket/train mnt",
		"gen --num-images 5 --output x":                     "did you mean: --images",
		"gen --output x":                                    "did you mean: --out",
		"convert p o --raw-ratio 1 --write-mode proportion": "did you mean: --raw-ratio",
		"check p":  "did you mean: batchfs verify",
		"status m": "did you mean: batchfs stats",
	} {
		got := batchfs(t, strings.Fields(line)...)
		if got.status != statusUsage || !strings.HasSuffix(got.err, "\nbatchfs: hint: "+want+"\n") {
			t.Errorf("%s: status %d, %s", line, got.status, got.err)
		}
	}
	for _, line := range []string{"version", "--version", "-v"} {
		if got := batchfs(t, line); got.status != statusDone || got.out != "batchfs version "+version()+"\n" {
			t.Errorf("%s: status %d, %s", line, got.status, got.err)
		}
	}
}

// TestOtherWordsAreRight: what otherwords.txt proposes is accepted, and what it answers is not.
func TestOtherWordsAreRight(t *testing.T) {
	var flags []cli.Flag
	commands := newApp(&console{}, true)
	for _, cmd := range commands.Commands {
		flags = append(flags, cmd.Flags...)
	}
	accepted := func(name, value string) bool {
		flag, ok := find(flags, name).(*cli.GenericFlag)
		return ok && flag.Value.(*setting).parse(value) == ""
	}
	text := strings.TrimSpace(otherWordsText[strings.Index(otherWordsText, "\n\n"):])
	for line := range strings.Lines(text) {
		words, ours, ok := strings.Cut(strings.TrimSpace(line), " => ")
		switch meant := strings.Fields(strings.TrimPrefix(ours, "--shuffle=")); {
		case line == "\n":
			continue
		case !ok || ours == "":
			t.Errorf("%q", line)
		case meant[0] == "batchfs" && commands.Command(meant[1]) == nil, strings.HasPrefix(meant[0], "--") && find(flags, meant[0][2:]) == nil:
			t.Errorf("there is no %s", ours)
		case strings.HasPrefix(meant[0], "--") && len(meant) > 1 && meant[1] != "HxW" && !accepted(meant[0][2:], meant[1]):
			t.Errorf("%s is not accepted", ours)
		}
		for word := range strings.SplitSeq(words, ", ") {
			parts := strings.Fields(strings.TrimLeft(word, "-"))
			switch {
			case parts[0] == "batchfs" && commands.Command(parts[1]) != nil, len(parts) == 2 && parts[0] != "batchfs" && accepted(parts[0], parts[1]):
				t.Errorf("%s is one of our words", word)
			case len(parts) == 1 && find(flags, parts[0]) != nil && !slices.Contains([]string{"rank", "world-size"}, parts[0]):
				t.Errorf("%s is a flag of ours", word)
			}
		}
	}
}
