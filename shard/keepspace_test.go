package shard

import (
	"errors"
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
	for i := range memory { // a use after Give finds garbage
		memory[i] = 0xff
	}
	m.live -= int64(len(memory))
	m.blocks--
}

func (m *metered) Err() error {
	if m.steps++; m.fail > 0 && m.steps >= m.fail {
		return errEnough
	}
	return nil
}

var keepKinds = map[string]func(*Config, *KeepConfig){
	"padded":   func(*Config, *KeepConfig) {},
	"mixed":    func(cfg *Config, _ *KeepConfig) { mixed(cfg) },
	"drop":     func(cfg *Config, _ *KeepConfig) { cfg.LastBatch = Drop },
	"unpadded": func(cfg *Config, _ *KeepConfig) { cfg.PadLastBatch = false },
	"local":    func(cfg *Config, c *KeepConfig) { mixed(cfg); c.LocalTo = 2 },
}
