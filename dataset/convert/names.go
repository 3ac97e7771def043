package convert

import (
	"fmt"
	"math"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/batchfs/batchfs/dataset"
)

// maxName is the longest name of a file, in bytes.
const maxName = 255

// imageExtensions are dropped from a raw copy's name. Other extensions are part of the name: a
// manifest may call an image frame.0001.
var imageExtensions = map[string]bool{
	".jpg": true, ".jpeg": true, ".png": true, ".ppm": true, ".pgm": true, ".bmp": true, ".webp": true,
}

// separators stand between a name and a number, if neither plain name is usable. What follows a
// name must sort before what follows it in the next one, as in x.jpg and x.jpg.png, so each
// separator starts with a smaller character than the previous one.
var separators = []string{"~", "-", "!", " !"}

// rawName is the name of the raw copy of a file called name. Variant 0 is the natural name; the
// others are for when it is not usable.
func rawName(name string, variant uint16, ext string) string {
	base, suffix := name, ext
	switch variant {
	case 0:
		if e := path.Ext(name); imageExtensions[strings.ToLower(e)] && len(e) < len(name) {
			base = name[:len(name)-len(e)]
		}
	case 1:
	default:
		n := int(variant) - 2
		suffix = fmt.Sprintf("%s%d%s", separators[n%len(separators)], n/len(separators)+1, ext)
	}
	return cut(base, maxName-len(suffix)) + suffix
}

// cut shortens a name to at most n bytes, at a character boundary if it is UTF-8.
func cut(name string, n int) string {
	if len(name) <= n {
		return name
	}
	for k := n; k > n-utf8.UTFMax; k-- {
		if utf8.RuneStart(name[k]) {
			return name[:k]
		}
	}
	return name[:n]
}

// naming finds raw names for the files of one directory.
type naming struct {
	exts  []string
	taken map[string]struct{} // in lower case, because some file systems ignore case
	last  string              // the largest name so far, in sort order
	moved int                 // names with no raw name that sorts between their neighbors

	raw, lower []string // the current candidates
}

func newNaming(exts, names, others []string) *naming {
	n := &naming{exts: exts, taken: make(map[string]struct{}, 2*len(names))}
	for _, list := range [][]string{names, others} {
		for _, name := range list {
			n.taken[strings.ToLower(name)] = struct{}{}
		}
	}
	return n
}

// pass moves past a name that stays.
func (n *naming) pass(name string) {
	if dataset.CompareNames(n.last, name) < 0 {
		n.last = name
	}
}

// orderly is how many variants are tried for one that keeps the order.
const orderly = 1000

// choose finds the variant for a name; following is the next name, "" after the last.
func (n *naming) choose(name, following string) (uint16, error) {
	for v := range uint16(orderly) {
		if n.consider(name, v) && n.inOrder(following) {
			n.settle(name)
			return v, nil
		}
	}
	n.moved++
	for v := range uint16(math.MaxUint16) {
		if n.consider(name, v) {
			n.settle(name)
			return v, nil
		}
	}
	return 0, fmt.Errorf("%s: no name is left for a raw copy", name)
}

// consider makes a variant's names the candidates and says whether they are free.
func (n *naming) consider(name string, v uint16) bool {
	n.raw, n.lower = n.raw[:0], n.lower[:0]
	for _, ext := range n.exts {
		raw := rawName(name, v, ext)
		lower := strings.ToLower(raw)
		if _, taken := n.taken[lower]; taken {
			return false
		}
		n.raw, n.lower = append(n.raw, raw), append(n.lower, lower)
	}
	return true
}

// inOrder says whether the candidates sort to the original's position, whichever of its
// neighbors are raw.
func (n *naming) inOrder(following string) bool {
	for _, raw := range n.raw {
		if dataset.CompareNames(n.last, raw) >= 0 || following != "" && dataset.CompareNames(raw, following) >= 0 {
			return false
		}
	}
	return true
}

// settle reserves the candidates.
func (n *naming) settle(name string) {
	n.pass(name)
	for k, raw := range n.raw {
		n.taken[n.lower[k]] = struct{}{}
		n.pass(raw)
	}
}
