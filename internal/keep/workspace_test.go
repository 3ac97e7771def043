package keep

import (
	"errors"

	"github.com/batchfs/batchfs/shard"
)

// metered is a Workspace that counts its outstanding memory, and can fail.
type metered struct {
	onHeap
	live, peak int64
	blocks     int
	steps      int
	fail       int // Err fails at this step, and Take beyond refuse bytes; 0: never
	refuse     int64
}

var errEnough = errors.New("enough")

func (m *metered) Take(n int64) ([]byte, error) {
	if m.refuse > 0 && m.live+n > m.refuse {
		return nil, errEnough
	}
	m.live += n
	m.blocks++
	m.peak = max(m.peak, m.live)
	return m.onHeap.Take(n)
}

func (m *metered) Give(memory []byte) {
	spoil(memory)
	m.live -= int64(len(memory))
	m.blocks--
}

// spoil fills memory with garbage, so that a use after Give is noticed. The race detector would
// take most of a test's time to look at it.
//
//go:norace
func spoil(memory []byte) {
	for i := range memory {
		memory[i] = 0xff
	}
}

func (m *metered) Err() error {
	if m.steps++; m.fail > 0 && m.steps >= m.fail {
		return errEnough
	}
	return nil
}

var kinds = map[string]func(*shard.Config, *Config){
	"padded":   func(*shard.Config, *Config) {},
	"mixed":    func(cfg *shard.Config, _ *Config) { mixed(cfg) },
	"three":    func(cfg *shard.Config, _ *Config) { mixedOfThree(cfg) },
	"drop":     func(cfg *shard.Config, _ *Config) { cfg.LastBatch = shard.Drop },
	"unpadded": func(cfg *shard.Config, _ *Config) { cfg.PadLastBatch = false },
	"local":    func(cfg *shard.Config, c *Config) { mixed(cfg); c.LocalTo = 2 },
	"local, 3": func(cfg *shard.Config, c *Config) { mixedOfThree(cfg); c.LocalTo = 2 },
}
