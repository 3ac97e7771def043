package cache

import "fmt"

// Policy says what is kept.
type Policy uint8

const (
	// None keeps nothing.
	None Policy = iota
	// Constant keeps what a Plan says, from one epoch to the next.
	Constant
	// Static keeps what comes first, until the cache is full, for good.
	Static
	// TinyLFU keeps what was asked for most often.
	TinyLFU
)

var policyNames = [...]string{None: "none", Constant: "constant", Static: "static", TinyLFU: "tinylfu"}

// String is the word that users write.
func (p Policy) String() string { return policyNames[p] }

// ParsePolicy reads the word that users write.
func ParsePolicy(s string) (Policy, error) {
	for p, name := range policyNames {
		if s == name {
			return Policy(p), nil
		}
	}
	return None, fmt.Errorf("must be constant, static, tinylfu or none, not %q", s)
}

// A Plan says which samples are kept, for the policy Constant.
type Plan interface {
	// Keep says whether the sample, when it is read in an epoch, is to be there for the
	// next one, as far as that is known by now: what is not known is not kept. It never
	// waits: it is called by whoever reads, without any lock held.
	Keep(epoch int, id int64) (keep, known bool)
}

// Epochs that are being read at once lie close together: a reader may be one epoch
// behind another, so samples wait for epochs from one before to two after the one
// that somebody reads.
const (
	epochsBehind = 1
	epochsAhead  = 2
)

// far says that a sample which waits for one epoch is of no use to those who read
// another.
func far(waits, reading int) bool {
	return waits < reading-epochsBehind || waits > reading+epochsAhead
}

// forever is the epoch that samples wait for where no plan rules.
const forever = 1<<31 - 1
