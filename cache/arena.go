package cache

import (
	"encoding/binary"
	"math/bits"
	"os"
	"slices"
)

// systemPage is the kernel's unit of memory.
var systemPage = os.Getpagesize()

// Pages are divided into crumbs, for the ends of samples. A crumb begins with the number of the
// next crumb in its chain.
const (
	crumbsPerPage = 8
	crumbLink     = 4
)

// An arena is the memory that samples lie in. It knows chains, not samples, and does no
// accounting: a caller asks how much more memory it needs before it takes any. It is not safe
// for concurrent use, except for reading and writing allocated chains.
//
// Pages are numbered from 1, so that 0, the content of fresh memory, means none. An unused page
// is warm if it has memory, cold if its memory was returned to the system, or fresh if it was
// never touched: all pages from number fresh on.
//
// Pages of crumbs that have a free crumb form a doubly linked list. A page whose crumbs are all
// free becomes a warm page again.
type arena struct {
	page int // bytes
	data region
	meta [4]region // backs the following slices
	next []uint32  // page -> the next in its chain or list, 0: none
	prev []uint32  // page of crumbs -> the previous one in the list
	free []uint8   // page of crumbs -> bitmap of its free crumbs
	warm []uint32  // stack of warm pages, of height nWarm
	last int       // the highest page number

	nWarm  int
	nCold  int
	cold   uint32 // head of the list of cold pages
	fresh  int
	crumbs uint32 // head of the list of pages with a free crumb
	nFree  int    // free crumbs, over all pages
}

// A chain locates a sample: whole pages, then crumbs. 0 means none of that kind.
type chain struct{ page, crumb uint32 }

// metaSizes are the bytes per page in next, prev, free and warm; pageMeta is their sum.
var metaSizes = [4]int64{4, 4, 1, 4}

const pageMeta = 4 + 4 + 1 + 4

func newArena(pages int, pageSize int) (a arena, err error) {
	n := pages + 1
	a = arena{page: pageSize, last: pages, fresh: 1}
	if a.data, err = reserve(int64(n) * int64(pageSize)); err != nil {
		return a, err
	}
	for i, size := range metaSizes {
		if a.meta[i], err = reserve(int64(n) * size); err != nil {
			a.close()
			return a, err
		}
	}
	a.next, a.prev = values[uint32](a.meta[0], n), values[uint32](a.meta[1], n)
	a.free, a.warm = values[uint8](a.meta[2], n), values[uint32](a.meta[3], n)
	return a, nil
}

func (a *arena) close() {
	a.data.free()
	for i := range a.meta {
		a.meta[i].free()
	}
	a.next, a.prev, a.free, a.warm = nil, nil, nil, nil
}

func (a *arena) crumbSize() int { return a.page / crumbsPerPage }

// shape is how many pages and crumbs a sample of size bytes takes. A remainder that would need
// all eight crumbs takes a page instead, without the crumbs' links.
func shape(size int64, page int) (pages int64, crumbs int) {
	pages = size / int64(page)
	room := page/crumbsPerPage - crumbLink
	crumbs = (int(size%int64(page)) + room - 1) / room
	if crumbs >= crumbsPerPage {
		return pages + 1, 0
	}
	return pages, crumbs
}

// short is how many pages without memory a sample of size bytes would need; possible is false
// if there are not enough such pages.
func (a *arena) short(size int64) (n int, possible bool) {
	pages, crumbs := shape(size, a.page)
	if more := crumbs - a.nFree; more > 0 { // never more than one page's worth
		pages++
	}
	short := max(0, pages-int64(a.nWarm))
	return int(short), short <= int64(a.nCold+a.last+1-a.fresh)
}

// warmUp gives memory to n pages, which must exist according to short. On an error nothing has
// changed.
func (a *arena) warmUp(n int) error {
	end := a.fresh + max(0, n-a.nCold)
	for i, size := range metaSizes {
		if err := a.meta[i].use(int64(end) * size); err != nil {
			return err
		}
	}
	if err := a.data.use(int64(end) * int64(a.page)); err != nil {
		return err
	}
	for p := end - 1; p >= a.fresh; p-- { // so that the lowest is taken first
		a.push(uint32(p))
		n--
	}
	a.fresh = end
	for ; n > 0; n-- {
		p := a.cold
		a.cold, a.next[p] = a.next[p], 0
		a.nCold--
		a.push(p)
	}
	return nil
}

// take builds a chain for a sample of size bytes from warm pages and free crumbs; short must
// have been 0.
func (a *arena) take(size int64) (c chain) {
	pages, crumbs := shape(size, a.page)
	for range pages { // back to front, because the chain stores its head
		p := a.pop()
		a.next[p], c.page = c.page, p
	}
	for range crumbs {
		k := a.takeCrumb()
		binary.NativeEndian.PutUint32(a.crumb(k), c.crumb)
		c.crumb = k
	}
	return c
}

// release frees a chain.
func (a *arena) release(c chain) {
	for p := c.page; p != 0; {
		after := a.next[p]
		a.next[p] = 0
		a.push(p)
		p = after
	}
	for k := c.crumb; k != 0; {
		after := binary.NativeEndian.Uint32(a.crumb(k))
		a.releaseCrumb(k)
		k = after
	}
}

func (a *arena) pop() uint32 {
	a.nWarm--
	return a.warm[a.nWarm]
}

func (a *arena) push(p uint32) {
	a.warm[a.nWarm] = p
	a.nWarm++
}

func (a *arena) takeCrumb() uint32 {
	if a.crumbs == 0 {
		p := a.pop()
		a.free[p] = 1<<crumbsPerPage - 1
		a.nFree += crumbsPerPage
		a.link(p)
	}
	p := a.crumbs
	k := bits.TrailingZeros8(a.free[p])
	a.free[p] &^= 1 << k
	a.nFree--
	if a.free[p] == 0 {
		a.unlink(p)
	}
	return p*crumbsPerPage + uint32(k)
}

func (a *arena) releaseCrumb(k uint32) {
	p := k / crumbsPerPage
	if a.free[p] == 0 {
		a.link(p)
	}
	a.free[p] |= 1 << (k % crumbsPerPage)
	a.nFree++
	if a.free[p] == 1<<crumbsPerPage-1 {
		a.unlink(p)
		a.free[p] = 0
		a.nFree -= crumbsPerPage
		a.push(p)
	}
}

// link prepends a page of crumbs to the list.
func (a *arena) link(p uint32) {
	a.next[p], a.prev[p] = a.crumbs, 0
	if a.crumbs != 0 {
		a.prev[a.crumbs] = p
	}
	a.crumbs = p
}

func (a *arena) unlink(p uint32) {
	before, after := a.prev[p], a.next[p]
	if before == 0 {
		a.crumbs = after
	} else {
		a.next[before] = after
	}
	if after != 0 {
		a.prev[after] = before
	}
	a.next[p], a.prev[p] = 0, 0
}

func (a *arena) bytesOf(p uint32) []byte {
	at := int(p) * a.page
	return a.data.mapping[at : at+a.page : at+a.page]
}

func (a *arena) crumb(k uint32) []byte {
	at := int(k) * a.crumbSize()
	return a.data.mapping[at : at+a.crumbSize() : at+a.crumbSize()]
}

// write fills a chain that was allocated for len(data) bytes.
func (a *arena) write(c chain, data []byte) {
	for p := c.page; p != 0; p = a.next[p] {
		data = data[copy(a.bytesOf(p), data):]
	}
	for k := c.crumb; k != 0; {
		b := a.crumb(k)
		k = binary.NativeEndian.Uint32(b)
		data = data[copy(b[crumbLink:], data):]
	}
}

// read copies a chain that was allocated for len(dst) bytes.
func (a *arena) read(c chain, dst []byte) {
	for p := c.page; p != 0; p = a.next[p] {
		dst = dst[copy(dst, a.bytesOf(p)):]
	}
	for k := c.crumb; k != 0; {
		b := a.crumb(k)
		k = binary.NativeEndian.Uint32(b)
		dst = dst[copy(dst, b[crumbLink:]):]
	}
}

// detach removes up to n warm pages and appends their numbers to list.
func (a *arena) detach(n int, list []uint32) []uint32 {
	n = min(n, a.nWarm)
	list = append(list, a.warm[a.nWarm-n:a.nWarm]...)
	a.nWarm -= n
	return list
}

// forget returns the memory of detached pages to the system. It needs no lock. It sorts the
// list and splits it into the pages it released and those that the system refused.
func (a *arena) forget(list []uint32) (done, kept []uint32) {
	slices.Sort(list)
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to] == list[to-1]+1 {
			to++
		}
		run := list[from:to]
		from = to
		first := int64(run[0]) * int64(a.page)
		if a.data.forget(first, first+int64(len(run))*int64(a.page)) != nil {
			kept = append(kept, run...)
			continue
		}
		done = append(done, run...)
	}
	return done, kept
}

// attach puts detached pages back, without memory (cold) or with it (warm).
func (a *arena) attach(cold, warm []uint32) {
	for _, p := range cold {
		a.next[p], a.cold = a.cold, p
		a.nCold++
	}
	for _, p := range warm {
		a.push(p)
	}
}
