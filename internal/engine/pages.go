package engine

import (
	"math"
	"sort"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/pages"
)

// openPages returns nil if no samples are in compressed pages, or there is no memory for any.
func openPages(c Budget, m *memory) *pages.Cache {
	if c.Pages.Packed == 0 {
		return nil
	}
	opened, err := pages.New(pages.Options{
		// The account decides in the end. If little is left, some pages are worth more than
		// prefetched batches.
		Limit: max(c.pageMemory(), min(c.pageNeeds(), c.Options.MemoryLimit/4)), Pages: c.Pages.Packed, Budget: cacheBudget{m, usePages},
		// In order and in windows, all samples of a page are read soon after one another.
		Once: !c.Options.Shuffle || c.Options.Window > 0,
	})
	if err != nil {
		c.Options.Logger.Warn("compressed pages are unpacked for each sample", "reason", err)
		return nil
	}
	c.Dataset.KeepPages(opened)
	return opened
}

// pageNeeds is the memory for the pages that are read again before an epoch is done with them, in
// the order that the options give. pageNeedsIn is the same for a shuffle of windows of so many
// blocks.
func (c Budget) pageNeeds() int64 { return c.pageNeedsIn(c.Options.Window) }

func (c Budget) pageNeedsIn(window int) int64 {
	o, p := c.Options, &c.Pages
	if p.Count == 0 || o.Shuffle && window == 0 {
		return p.Unpacked
	}
	// For each shard: the batches in the making, and the page that continues after them.
	perSample := p.Unpacked/o.Samples + 1
	needs := saturating(o.PrefetchDepth+1, saturating(o.BatchSize, perSample)) + p.Largest
	if window > 0 {
		count := (c.Plan.Blocks() + int64(window) - 1) / int64(window)
		needs += p.Unpacked / count * 5 / 4 // the next window begins before the last page of one is done with
	}
	return min(saturating(o.LocalShards(), needs), p.Unpacked)
}

// pageMemory is what the memory limit leaves for pages beside a cache of a given size.
func (c Budget) pageMemory() int64 {
	spare := c.spareMemory()
	if o := c.Options; o.CachePolicy != cache.None && o.CacheSize > 0 {
		spare -= o.CacheSize
	}
	return max(0, spare)
}

// Repeats say how often an epoch reads compressed pages from which several samples are read.
type Repeats struct {
	Factor float64 // bytes read divided by bytes stored, approximately and at most; 1: each page is read once
	Needs  int64   // bytes of memory for a Factor of 1
	Memory int64   // bytes that the memory limit leaves for pages
	Window int     // the largest shuffle window for which Memory would be enough; 0: none
}

// Repeats estimates how much an epoch reads again. The result is not zero only if memory is too
// short.
func (c Budget) Repeats() Repeats {
	p, r := &c.Pages, Repeats{Factor: 1, Needs: c.pageNeeds(), Memory: c.pageMemory()}
	if r.Needs <= r.Memory {
		return r
	}
	found := float64(r.Memory) / float64(r.Needs)
	r.Factor = found + (1-found)*float64(p.Single)/float64(p.Stored)
	if c.Options.Shuffle {
		most := int(min(c.Plan.Blocks(), math.MaxInt32))
		r.Window = sort.Search(most, func(w int) bool { return c.pageNeedsIn(w+1) > r.Memory })
	}
	return r
}
