package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
)

// markerName is the file that records what a tree is made of. It is written first. Dataset
// readers skip it because of its leading dot.
const markerName = ".batchfs-convert.json"

// mark is the marker's content. It must be the same for all runs that make the same tree.
type mark struct {
	Version     int      `json:"version"`
	Source      string   `json:"source"`      // for humans
	Fingerprint string   `json:"fingerprint"` // of the source
	Settings    settings `json:"settings"`
}

const markVersion = 1

// settings are everything besides the dataset that the result depends on.
type settings struct {
	Ratio             float64 `json:"raw_ratio"`
	Format            string  `json:"raw_format"`
	Resize            string  `json:"raw_resize"`
	Height            int     `json:"height,omitempty"`
	Width             int     `json:"width,omitempty"`
	Seed              uint64  `json:"seed"`
	IgnoreOrientation bool    `json:"ignore_orientation"`
	MaxPixels         int64   `json:"max_pixels"`
	Manifest          string  `json:"manifest,omitempty"`
	Decoder           string  `json:"decoder"`
	Resample          string  `json:"resample"`
}

func newMark(ds *dataset.Dataset, o Options, ratio float64, fingerprint string) *mark {
	source := ds.Root()
	s := settings{
		Ratio: ratio, Format: o.Format.String(), Resize: o.Resize.String(), Height: o.Height, Width: o.Width,
		Seed: o.Seed, IgnoreOrientation: o.IgnoreOrientation, MaxPixels: o.MaxPixels,
		Decoder: decode.Version(), Resample: resample.Version,
	}
	if o.Manifest != "" {
		s.Manifest = filepath.Base(o.Manifest)
		source = filepath.Join(source, s.Manifest)
	}
	return &mark{Version: markVersion, Source: strings.ToValidUTF8(source, "?"), Fingerprint: fingerprint, Settings: s}
}

func (m *mark) text() []byte {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic(err) // cannot happen: numbers and strings only
	}
	return append(text, '\n')
}

var errMark = errors.New("not a marker")

func parseMark(text []byte) (*mark, error) {
	m := &mark{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, err
	}
	if m.Version != markVersion || m.Fingerprint == "" {
		return nil, errMark
	}
	return m, nil
}

// continues says why a run with marker m cannot continue what an earlier one began at path.
func (m *mark) continues(earlier *mark, path string) error {
	if was, is := earlier.Settings, m.Settings; was != is {
		return fmt.Errorf("%s %w: %s", path, ErrSettings, was.difference(is))
	}
	if earlier.Fingerprint != m.Fingerprint {
		return fmt.Errorf("%w since %s was begun", ErrSource, path)
	}
	return nil
}

// made says why a run with marker m would not produce what an earlier one finished at path.
// That result is then just a directory that is not empty.
func (m *mark) made(earlier *mark, path string) error {
	if was, is := earlier.Settings, m.Settings; was != is {
		return fmt.Errorf("%s: %w: it was made with other settings: %s", path, ErrNotEmpty, was.difference(is))
	}
	if earlier.Fingerprint != m.Fingerprint {
		return fmt.Errorf("%s: %w: it was made before the dataset changed", path, ErrNotEmpty)
	}
	return nil
}

// difference lists the settings that differ, in the users' terms.
func (s settings) difference(is settings) string {
	size := func(s settings) string {
		if s.Height == 0 {
			return "none"
		}
		return fmt.Sprintf("%dx%d", s.Height, s.Width)
	}
	var parts []string
	for _, f := range []struct {
		name    string
		was, is any
	}{
		{"raw ratio", s.Ratio, is.Ratio}, {"raw format", s.Format, is.Format}, {"raw size", size(s), size(is)},
		{"raw resize", s.Resize, is.Resize}, {"seed", s.Seed, is.Seed},
		{"ignore orientation", s.IgnoreOrientation, is.IgnoreOrientation}, {"max pixels", s.MaxPixels, is.MaxPixels},
		{"manifest", s.Manifest, is.Manifest}, {"decoder", s.Decoder, is.Decoder}, {"resampling", s.Resample, is.Resample},
	} {
		if f.was != f.is {
			parts = append(parts, fmt.Sprintf("%s %v, now %v", f.name, f.was, f.is))
		}
	}
	return strings.Join(parts, "; ")
}
