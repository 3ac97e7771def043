package convert

import "container/heap"

// places hands out places to classes, one at a time, so that every class always has its share
// of them, rounded down or up. See the package comment.
type places struct {
	sizes   []int64  // of each class, at least 1
	ties    []uint64 // decide between classes that are otherwise equal
	total   int64
	given   int64
	taken   []int64    // by each class
	waiting classQueue // by when their next window opens
	ready   classQueue // by when their window closes
}

// newPlaces has one place for each sample of each class.
func newPlaces(sizes []int64, ties []uint64) *places {
	p := &places{sizes: sizes, ties: ties, taken: make([]int64, len(sizes))}
	p.waiting.before = func(a, b int) bool { return p.earlier(a, b, p.taken[a], p.taken[b]) }
	p.ready.before = func(a, b int) bool { return p.earlier(a, b, p.taken[a]+1, p.taken[b]+1) }
	for class, n := range sizes {
		p.total += n
		p.waiting.classes = append(p.waiting.classes, class)
	}
	heap.Init(&p.waiting)
	return p
}

// earlier compares the times na/sizes[a] and nb/sizes[b].
func (p *places) earlier(a, b int, na, nb int64) bool {
	left, right := uint64(na)*uint64(p.sizes[b]), uint64(nb)*uint64(p.sizes[a])
	if left != right {
		return left < right
	}
	if p.ties[a] != p.ties[b] {
		return p.ties[a] < p.ties[b]
	}
	return a < b
}

// next returns the class that gets the next place; false if none is left.
func (p *places) next() (class int, ok bool) {
	if p.given == p.total {
		return 0, false
	}
	p.given++
	for len(p.waiting.classes) > 0 && p.open(p.waiting.classes[0]) {
		heap.Push(&p.ready, heap.Pop(&p.waiting))
	}
	class = heap.Pop(&p.ready).(int)
	p.taken[class]++
	if p.taken[class] < p.sizes[class] {
		heap.Push(&p.waiting, class)
	}
	return class, true
}

// open says whether a class's window opens before the place's time: taken/size is compared with
// (given - 1/2)/total.
func (p *places) open(class int) bool {
	return uint64(p.taken[class])*2*uint64(p.total) < uint64(2*p.given-1)*uint64(p.sizes[class])
}

// classQueue is a heap of classes.
type classQueue struct {
	classes []int
	before  func(a, b int) bool
}

func (q *classQueue) Len() int           { return len(q.classes) }
func (q *classQueue) Less(i, j int) bool { return q.before(q.classes[i], q.classes[j]) }
func (q *classQueue) Swap(i, j int)      { q.classes[i], q.classes[j] = q.classes[j], q.classes[i] }
func (q *classQueue) Push(class any)     { q.classes = append(q.classes, class.(int)) }
func (q *classQueue) Pop() any {
	last := len(q.classes) - 1
	class := q.classes[last]
	q.classes = q.classes[:last]
	return class
}
