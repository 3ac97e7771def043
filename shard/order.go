package shard

// OrderVersion names the construction in the package comment. It must change with every change
// that moves a sample, and with nothing else. The others are part of Plan.Version if they matter;
// samples of several classes had no say in windows and placement before theirs.
const (
	OrderVersion  = "xor-feistel-8/1"
	windowed      = "+window/1"
	mixedWindowed = "+window/2"
	placed        = "+local/1"
	mixedPlaced   = "+local/2"
)

// Version names everything that decides which samples are in a batch, beside the Config.
func (p *Plan) Version() string {
	version, window, place := OrderVersion, windowed, placed
	if p.raw != nil {
		window, place = mixedWindowed, mixedPlaced
	}
	if p.windows != nil {
		version += window
	}
	if p.cfg.Partition == Local {
		version += place
	}
	return version
}

// order is the order of one epoch, with its keys derived.
type order struct {
	samples uint64
	shuffle bool
	raw     *RawSet // nil: one class
	blend   blend
	window  window // of a shuffle that has them
	windows bool
}

// What is permuted, as part of a permutation's key.
const (
	tagAll    = 0 // plus tagOf a class
	tagBlocks = 3
	tagWindow = 4 // the first window's; the others have the next ones
)

func (p *Plan) order(epoch int) order {
	o := order{samples: uint64(p.samples), shuffle: p.cfg.Shuffle, raw: p.raw}
	switch {
	case !o.shuffle:
	case p.windows != nil:
		o.windows, o.window = true, window{blockOrder: p.windows.in(epoch)}
	default:
		o.blend = newBlend(p.raw.before(p.samples), func(class int, n uint64) permutation {
			return newPermutation(n, p.cfg.Seed, uint64(epoch), tagAll+p.raw.tagOf(class))
		})
	}
	return o
}

// id is the sample at a position; -1 if there is no such position.
func (o *order) id(position int64) int64 {
	switch {
	case uint64(position) >= o.samples:
		return -1
	case !o.shuffle:
		return position
	case o.windows:
		return o.window.id(position)
	}
	class, rank := o.blend.at(uint64(position))
	return o.raw.find(int64(rank), class)
}

// ID is the sample at a position of an epoch; -1 if there is none.
func (p *Plan) ID(epoch int, position int64) int64 {
	if epoch < 0 {
		return -1
	}
	o := p.order(epoch)
	return o.id(position)
}
