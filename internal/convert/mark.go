package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/shard"
)

// markerName is the file that records how a tree is made. It is written first. Dataset readers skip
// it because of its leading dot.
const markerName = ".batchfs-convert.json"

// mark is the marker's content. It must be the same for all runs that make the same tree.
type mark struct {
	Version     int    `json:"version"`
	Source      string `json:"source"`      // for humans
	Fingerprint string `json:"fingerprint"` // of the source
	// Settings are everything besides the dataset that the result depends on, in users' terms.
	Settings map[string]string `json:"settings"`
}

const markVersion = 2

func newMark(ds *dataset.Dataset, o Options, shares Shares, fingerprint string) *mark {
	manifest := ""
	if o.Manifest != "" {
		manifest = filepath.Base(o.Manifest)
	}
	size := "none"
	if o.Height > 0 {
		size = fmt.Sprintf("%dx%d", o.Height, o.Width)
	}
	return &mark{markVersion, strings.ToValidUTF8(ds.Name, "?"), fingerprint, map[string]string{
		shareSetting(shard.Raw): fmt.Sprint(shares.Raw), shareSetting(shard.Packed): fmt.Sprint(shares.Packed), "raw format": o.Format.String(), "raw size": size, "raw resize": o.Resize.String(),
		"seed": fmt.Sprint(o.Seed), "ignore orientation": fmt.Sprint(o.IgnoreOrientation), "max pixels": fmt.Sprint(o.MaxPixels),
		"manifest": strings.ToValidUTF8(manifest, "?"), "decoder": decode.Version(), "resampling": resample.Version,
	}}
}

// shares are the recorded shares.
func (m *mark) shares() (s Shares, err error) {
	if s.Raw, err = strconv.ParseFloat(m.Settings[shareSetting(shard.Raw)], 64); err == nil {
		s.Packed, err = strconv.ParseFloat(m.Settings[shareSetting(shard.Packed)], 64)
	}
	return s, err
}

func (m *mark) text() []byte {
	text, _ := json.MarshalIndent(m, "", "  ") // numbers and strings do not fail
	return append(text, '\n')
}

func parseMark(text []byte) (*mark, error) {
	m := &mark{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, err
	}
	if m.Version != markVersion || m.Fingerprint == "" {
		return nil, errors.New("not a marker")
	}
	return m, nil
}

// continues says why a run with the marker now would make something other than what m's run made or
// began.
func (m *mark) continues(now *mark) error {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(now.Settings)) {
		if was, is := m.Settings[name], now.Settings[name]; was != is {
			parts = append(parts, fmt.Sprintf("%s %s, now %s", name, was, is))
		}
	}
	if len(parts) > 0 {
		return fmt.Errorf("%w: %s", ErrSettings, strings.Join(parts, "; "))
	}
	if m.Fingerprint != now.Fingerprint {
		return fmt.Errorf("was begun before %w", ErrSource)
	}
	return nil
}
