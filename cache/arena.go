package cache

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"os"
	"slices"
	"unsafe"
)

// systemPage is the kernel's unit of memory.
var systemPage = os.Getpagesize()

// Pages are divided into crumbs, which hold the ends of samples. A crumb begins with the number of
// the next crumb in its chain.
const (
	crumbsPerPage = 8
	crumbLink     = 4
	allFree       = 1<<crumbsPerPage - 1
)

// An arena is the memory of samples. It manages chains without knowing samples, and does no
// accounting: a caller asks how much more memory it needs before it takes any. It is not safe for
// concurrent use, except for reading and writing allocated chains.
//
// Pages are numbered from 1, so that 0, the content of fresh memory, means none. An unused page is
// warm if it has memory, cold if its memory was returned to the system, or fresh if it was never
// touched: all pages from number fresh on.
//
// Pages of crumbs with a free crumb form a doubly linked list. A page whose crumbs are all free
// becomes a warm page again.
type arena struct {
	data, meta region
	pages      []pageLinks // in meta

	warm, cold stack
	fresh      int
	crumbs     uint32 // head of the list of pages with a free crumb
	nFree      int    // free crumbs, over all pages
}

// pageLinks is the arena's data about a page.
type pageLinks struct {
	next uint32 // in its chain, stack or list; 0: none
	prev uint32 // in the list of pages with a free crumb
	free uint8  // page of crumbs: bitmap of its free crumbs
}

const pageMeta = int64(unsafe.Sizeof(pageLinks{}))

// A stack is a list of unused pages.
type stack struct {
	top uint32
	n   int
}

// A chain locates a sample: whole pages, then crumbs. 0 means none of that kind.
type chain struct{ page, crumb uint32 }

func newArena(pages int) (a arena, err error) {
	n := int64(pages) + 1
	a.fresh = 1
	if a.data, err = reserve(n * int64(systemPage)); err != nil {
		return a, err
	}
	if a.meta, err = reserve(n * pageMeta); err != nil {
		return a, err // the caller closes what was made
	}
	a.pages = values[pageLinks](a.meta, 0, n)
	return a, a.meta.use(n * pageMeta)
}

func (a *arena) close() {
	a.data.free()
	a.meta.free()
	*a = arena{}
}

// shape is how many pages and crumbs a sample of size bytes takes. A remainder that would need
// all eight crumbs takes a page instead, without the crumbs' links.
func shape(size int64) (pages int64, crumbs int) {
	pages = size / int64(systemPage)
	room := systemPage/crumbsPerPage - crumbLink
	crumbs = (int(size%int64(systemPage)) + room - 1) / room
	if crumbs >= crumbsPerPage {
		return pages + 1, 0
	}
	return pages, crumbs
}

// short is how many pages without memory a sample of size bytes would need; possible is false if
// there are too few.
func (a *arena) short(size int64) (n int, possible bool) {
	pages, crumbs := shape(size)
	if crumbs > a.nFree { // never more than one page's worth
		pages++
	}
	short := max(0, pages-int64(a.warm.n))
	return int(short), short <= int64(a.cold.n+len(a.pages)-a.fresh)
}

// warmUp gives memory to n pages, which short has found. On an error nothing has changed.
func (a *arena) warmUp(n int) error {
	if err := a.data.use(int64(a.fresh+max(0, n-a.cold.n)) * int64(systemPage)); err != nil {
		return err
	}
	for range n {
		if a.cold.n > 0 {
			a.push(&a.warm, a.pop(&a.cold))
		} else {
			a.push(&a.warm, uint32(a.fresh))
			a.fresh++
		}
	}
	return nil
}

// scattered is a shape for a sample of size bytes when there are too few pages: the warm pages, and
// free crumbs instead of the others. There may be many free crumbs after samples were replaced. ok
// is false if they do not suffice.
func (a *arena) scattered(size int64) (pages int64, crumbs int, ok bool) {
	pages = min(size/int64(systemPage), int64(a.warm.n))
	room := int64(systemPage/crumbsPerPage - crumbLink)
	rest := (size - pages*int64(systemPage) + room - 1) / room
	return pages, int(rest), rest <= int64(a.nFree)
}

// take builds a chain from warm pages and crumbs. There must be enough of them; missing crumbs may
// come from one more warm page.
func (a *arena) take(pages int64, crumbs int) (c chain) {
	for range pages { // back to front, because the chain stores its head
		p := a.pop(&a.warm)
		a.pages[p].next, c.page = c.page, p
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
		after := a.pages[p].next
		a.push(&a.warm, p)
		p = after
	}
	for k := c.crumb; k != 0; {
		after := binary.NativeEndian.Uint32(a.crumb(k))
		a.releaseCrumb(k)
		k = after
	}
}

func (a *arena) pop(s *stack) uint32 {
	p := s.top
	s.top = a.pages[p].next
	s.n--
	return p
}

func (a *arena) push(s *stack, p uint32) {
	a.pages[p].next, s.top = s.top, p
	s.n++
}

func (a *arena) takeCrumb() uint32 {
	if a.crumbs == 0 {
		p := a.pop(&a.warm)
		a.pages[p].free = allFree
		a.nFree += crumbsPerPage
		a.link(p)
	}
	p := a.crumbs
	free := &a.pages[p].free
	k := bits.TrailingZeros8(*free)
	*free &^= 1 << k
	a.nFree--
	if *free == 0 {
		a.unlink(p)
	}
	return p*crumbsPerPage + uint32(k)
}

func (a *arena) releaseCrumb(k uint32) {
	p := k / crumbsPerPage
	free := &a.pages[p].free
	if *free == 0 {
		a.link(p)
	}
	*free |= 1 << (k % crumbsPerPage)
	a.nFree++
	if *free == allFree {
		a.unlink(p)
		a.nFree -= crumbsPerPage
		a.push(&a.warm, p)
	}
}

// link prepends a page of crumbs to the list.
func (a *arena) link(p uint32) {
	a.pages[p].next, a.pages[p].prev = a.crumbs, 0
	a.pages[a.crumbs].prev = p // page 0 is unused
	a.crumbs = p
}

func (a *arena) unlink(p uint32) {
	before, after := a.pages[p].prev, a.pages[p].next
	if before == 0 {
		a.crumbs = after
	} else {
		a.pages[before].next = after
	}
	a.pages[after].prev = before
}

func (a *arena) bytesOf(p uint32) []byte {
	at := int(p) * systemPage
	return a.data.mapping[at : at+systemPage : at+systemPage]
}

func (a *arena) crumb(k uint32) []byte {
	size := systemPage / crumbsPerPage
	at := int(k) * size
	return a.data.mapping[at : at+size : at+size]
}

// parts visits the memory of a chain, in order.
func (a *arena) parts(c chain) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for p := c.page; p != 0; p = a.pages[p].next {
			yield(a.bytesOf(p))
		}
		for k := c.crumb; k != 0; {
			b := a.crumb(k)
			k = binary.NativeEndian.Uint32(b)
			yield(b[crumbLink:])
		}
	}
}

// write fills a chain that was allocated for len(data) bytes.
func (a *arena) write(c chain, data []byte) {
	for part := range a.parts(c) {
		data = data[copy(part, data):]
	}
}

// read copies a chain that was allocated for len(dst) bytes.
func (a *arena) read(c chain, dst []byte) {
	for part := range a.parts(c) {
		dst = dst[copy(dst, part):]
	}
}

// cool returns the memory of up to n warm pages to the system, and reports how many.
func (a *arena) cool(n int) int {
	list := make([]uint32, min(n, a.warm.n))
	for i := range list {
		list[i] = a.pop(&a.warm)
		a.push(&a.cold, list[i])
	}
	slices.Sort(list)
	for left := list; len(left) > 0; {
		n := 1
		for n < len(left) && left[n] == left[0]+uint32(n) {
			n++
		}
		a.data.forget(int(left[0])*systemPage, n*systemPage)
		left = left[n:]
	}
	return len(list)
}
