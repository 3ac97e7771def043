package convert

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// population is a dataset as the choice sees it.
type population struct {
	labels    []int
	standings []standing
}

func (p *population) add(label, n int, k standing) {
	for range n {
		p.labels = append(p.labels, label)
		p.standings = append(p.standings, k)
	}
}

func (p *population) Len() int          { return len(p.labels) }
func (p *population) Label(i int) int   { return p.labels[i] }
func (p *population) Path(i int) string { return fmt.Sprintf("%d/%d.jpg", p.labels[i], i) }

// choose returns the choice, ascending.
func (p *population) choose(seed uint64, ratio float64) []int32 {
	return slices.Sorted(slices.Values(choose(p, p.standings, seed, ratio)))
}

// count returns how many samples of each class are raw after a choice.
func (p *population) count(chosen []int32) map[int]int {
	raw := map[int]int{}
	for i, l := range p.labels {
		if _, ok := slices.BinarySearch(chosen, int32(i)); ok || p.standings[i] == counted {
			raw[l]++
		}
	}
	return raw
}

func (p *population) sizes() map[int]int {
	sizes := map[int]int{}
	for _, l := range p.labels {
		sizes[l]++
	}
	return sizes
}

func randomPopulation(r *rand.Rand) *population {
	p := &population{}
	for class := range 1 + r.IntN(8) {
		size := 1 + r.IntN(12)
		if r.IntN(4) == 0 {
			size += r.IntN(40)
		}
		p.add(class*3-1, size, eligible)
	}
	r.Shuffle(len(p.labels), func(i, j int) { p.labels[i], p.labels[j] = p.labels[j], p.labels[i] })
	return p
}

// TestChoiceIsEven: for every share R, the whole has floor(R·n + 1/2) raw samples, and a larger
// share's choice contains a smaller one's. Each class has floor or ceil of T times its size for
// one T close to R, which is R itself if all classes are of one size.
func TestChoiceIsEven(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		p := randomPopulation(r)
		if round%3 == 0 {
			p = &population{}
			for class := range 2 + r.IntN(9) {
				p.add(class, 1+round/3, eligible)
			}
		}
		seed, n, sizes := r.Uint64(), len(p.labels), p.sizes()
		steps := 2*n + 1 + r.IntN(5)
		var before []int32
		for step := range steps + 1 {
			ratio := float64(step) / float64(steps)
			chosen := p.choose(seed, ratio)
			if want := int(math.Floor(ratio*float64(n) + 0.5)); len(chosen) != want {
				t.Fatalf("%d of %d at %v, want %d", len(chosen), n, ratio, want)
			}
			low, high := 0.0, 1.0 // the T that explain the counts
			for class, got := range p.count(chosen) {
				low = max(low, float64(got-1)/float64(sizes[class]))
				high = min(high, float64(got+1)/float64(sizes[class]))
				// Exactly: step/steps times the size, rounded down and up.
				down, up := step*sizes[class]/steps, (step*sizes[class]+steps-1)/steps
				if round%3 == 0 && (got < down || got > up) {
					t.Fatalf("class %d of %v has %d at %d/%d, want %d to %d", class, sizes, got, step, steps, down, up)
				}
			}
			for class := range sizes {
				if got := p.count(chosen)[class]; got == 0 {
					high = min(high, 1/float64(sizes[class]))
				}
			}
			// Each of the classes adds less than one sample to the difference of T·n and R·n.
			if far := (float64(len(sizes)) + 0.5) / float64(n); low > high+1e-9 || low > ratio+far || high < ratio-far {
				t.Fatalf("classes of %v have %v at %v: T is in %v to %v", sizes, p.count(chosen), ratio, low, high)
			}
			for _, i := range before {
				if _, ok := slices.BinarySearch(chosen, i); !ok {
					t.Fatalf("sample %d is raw at a smaller share than %v, but not there", i, ratio)
				}
			}
			before = chosen
		}
	}
}

// TestChoiceCountsRaw: samples that are already raw count. If a class has more of them than its
// share, the others get fewer, as evenly as possible.
func TestChoiceCountsRaw(t *testing.T) {
	p := &population{}
	p.add(0, 10, eligible)
	p.add(1, 3, counted)
	p.add(1, 7, eligible)
	p.add(2, 10, counted)
	for _, test := range []struct {
		ratio float64
		want  map[int]int
	}{
		{0, map[int]int{1: 3, 2: 10}},
		{13. / 30, map[int]int{1: 3, 2: 10}},
		{16. / 30, map[int]int{0: 3, 1: 3, 2: 10}},
		{20. / 30, map[int]int{0: 5, 1: 5, 2: 10}},
		{1, map[int]int{0: 10, 1: 10, 2: 10}},
	} {
		if got := p.count(p.choose(1, test.ratio)); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("at %v: %v raw, want %v", test.ratio, got, test.want)
		}
	}
}

// TestChoicePassesOver: unreadable samples are never chosen, and the number is right as long as
// enough others are left. If a chosen sample turns out to be unreadable, the others stay chosen,
// and the next of its class joins them.
func TestChoicePassesOver(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		p := randomPopulation(r)
		good := 0
		for i := range p.standings {
			switch r.IntN(5) {
			case 0:
				p.standings[i] = excluded
			case 1:
				p.standings[i] = counted
				good++
			default:
				good++
			}
		}
		ratio := r.Float64()
		chosen := p.choose(5, ratio)
		raw := len(chosen)
		for i, k := range p.standings {
			if k == counted {
				raw++
			}
			if _, ok := slices.BinarySearch(chosen, int32(i)); ok && k != eligible {
				t.Fatalf("sample %d, which cannot become raw, is chosen", i)
			}
		}
		already := raw - len(chosen)
		if want := max(already, min(int(countOf(ratio, int64(len(p.standings)))), good)); raw != want {
			t.Fatalf("%d raw, want %d", raw, want)
		}
		if len(chosen) == 0 {
			continue
		}
		spoilt := chosen[r.IntN(len(chosen))]
		before := p.count(chosen)
		p.standings[spoilt] = excluded
		again := p.choose(5, ratio)
		for _, i := range chosen {
			if _, ok := slices.BinarySearch(again, i); ok == (i == spoilt) {
				t.Fatalf("%v become %v without %d", chosen, again, spoilt)
			}
		}
		label := p.labels[spoilt]
		if left := p.left(label, again); left > 0 && p.count(again)[label] < before[label] {
			t.Fatalf("class %d has %d raw and %d left, and had %d raw", label, p.count(again)[label], left, before[label])
		}
	}
}

// left is how many samples of a class could still become raw.
func (p *population) left(label int, chosen []int32) (n int) {
	for i, k := range p.standings {
		if _, ok := slices.BinarySearch(chosen, int32(i)); !ok && k == eligible && p.labels[i] == label {
			n++
		}
	}
	return n
}

// TestChoicePinned: later versions must continue an unfinished run, and extend its choice for a
// larger share. Do not change this without changing the marker's version.
func TestChoicePinned(t *testing.T) {
	p := &population{}
	for class := range 3 {
		p.add(class, 4, eligible)
	}
	p.add(3, 5, eligible)
	want := []int32{0, 2, 3, 4, 6, 8, 10, 12, 15}
	if got := p.choose(7, 0.5); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
