package cache

import "github.com/batchfs/batchfs/internal/option"

// Policy says what is kept.
type Policy uint8

const (
	// None keeps nothing.
	None Policy = iota
	// Constant keeps what a Plan says, from one epoch to the next.
	Constant
	// Static keeps the first samples for good, until the cache is full.
	Static
	// TinyLFU keeps the most frequently requested samples.
	TinyLFU
)

var policies = []string{"none", "constant", "static", "tinylfu"}

// String is the policy's name on the command line.
func (p Policy) String() string { return policies[p] }

// Set implements [flag.Value].
func (p *Policy) Set(name string) error {
	return option.Named(p, "cache policy", policies, name)
}

// A Plan says which samples are kept, for the policy Constant.
type Plan interface {
	// Keep says whether a sample read in an epoch should be kept for the next one. If that is not
	// known yet, the sample is not kept. Keep never blocks. Readers call it without holding any
	// lock.
	Keep(epoch int, id int64) (keep, known bool)
}

// Epochs that are read at the same time lie close together: a reader may be one epoch behind
// another, so samples wait for epochs from one before to two after an epoch being read.
const (
	epochsBehind = 1
	epochsAhead  = 2
)

// isFar says whether a sample that waits for one epoch is useless to readers of another.
func isFar(waits, reading int) bool {
	return waits < reading-epochsBehind || waits > reading+epochsAhead
}

// forever is the epoch that samples wait for when there is no plan.
const forever = 1<<31 - 1
