package engine

import "github.com/batchfs/batchfs/pinned"

// An input is a load's buffer for an encoded sample, and the part of it that the ledger has
// admitted.
type input struct {
	memory  *memory
	buffer  pinned.Host
	charged int64
	asked   int64 // what the attempt would take in an empty buffer; larger samples may have left more

	grow    func(n int) []byte // growFor for the batch of its load; made only once, as nothing is allocated for each sample
	refused error              // why grow failed
}

// growFor makes the buffer n bytes long, if the ledger admits that. If there is no room for a
// margin, the buffer gets none. If there is too little room even so, the error is errNoRoom, and
// the attempt ends; see room.
func (in *input) growFor(b *batch, n int) ([]byte, error) {
	var empty pinned.Host
	least := empty.Plan(n)
	in.asked = max(in.asked, least)
	if will := in.buffer.Plan(n); will > in.charged {
		if err := in.memory.fits(b, least, 0); err != nil {
			return nil, err
		}
		if !in.admit(will) {
			if !in.admit(least) {
				return nil, errNoRoom
			}
			in.buffer.Free()
		}
	}
	return in.memory.grow(&in.buffer, n)
}

// admit has the ledger admit n bytes in all, or reports that it refuses.
func (in *input) admit(n int64) bool {
	if more := n - in.charged; more > 0 {
		if !in.memory.ledger.admitLoad(more, 0, false) {
			return false
		}
		in.charged = n
	}
	return true
}

// presize allocates the buffer before the first sample.
func (in *input) presize(n int) error {
	err := in.buffer.Presize(n)
	in.chargeActual()
	return err
}

// giveBack frees the buffer.
func (in *input) giveBack() {
	in.buffer.Free()
	in.chargeActual()
}

// chargeActual makes the accounts agree with the memory that is held between samples: buffers
// shrink.
func (in *input) chargeActual() {
	held := in.buffer.Bytes()
	in.memory.ledger.correct(useScratch, held-in.charged)
	in.charged = held
}
