package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/engine"
)

// cacheOptions reads the size, policy and local shards of the cache.
func (v *flagValues) cacheOptions(o *engine.Options) {
	o.CachePolicy = choice(v, "cache-policy", cache.Constant, cache.Static, cache.TinyLFU, cache.None)
	o.CacheSize = v.cacheSize()
	o.LocalFrom, o.LocalTo = v.localShards(o.Shards)
	if o.CacheSize != 0 && o.CacheSize != engine.AutoCache && o.CachePolicy == cache.None {
		v.refuse(usage("--cache-size %s needs another --cache-policy than none", v.text("cache-size")))
	}
}

func (v *flagValues) cacheSize() int64 {
	text := v.text("cache-size")
	if text == "auto" {
		return engine.AutoCache
	}
	n, err := parseBytes(text)
	if err != nil {
		v.refuse(badValue("cache-size", "a size in bytes, such as 512MiB or 8GiB, auto or 0", text))
	}
	return n
}

// localShards reads A-B, inclusive, or one shard. 0, 0 means all.
func (v *flagValues) localShards(shards int) (from, to int) {
	if !v.given("local-shards") {
		return 0, 0
	}
	first, last, several := strings.Cut(v.text("local-shards"), "-")
	if !several {
		last = first
	}
	a, errA := strconv.ParseUint(first, 10, 31)
	b, errB := strconv.ParseUint(last, 10, 31)
	if errA != nil || errB != nil || a > b || b >= uint64(min(shards, math.MaxInt32)) {
		v.refuse(badValue("local-shards", fmt.Sprintf("the first and the last of shards 0 to %d, as in 0-%d", shards-1, shards-1), v.text("local-shards")))
		return 0, 0
	}
	return int(a), int(b) + 1
}
