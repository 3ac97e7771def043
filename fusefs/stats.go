package fusefs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/batchfs/batchfs/internal/parallel"
)

// ReadStats reads the statistics of a mount from any process: the text of stats.json, and what it
// says. The error wraps ErrNotMounted if there is no mount; it is ctx's shortly after ctx ends,
// since the mount's daemon may be suspended.
func ReadStats(ctx context.Context, mountpoint string) (text []byte, s Stats, err error) {
	text, err = parallel.Promptly(ctx, func() ([]byte, error) {
		return os.ReadFile(filepath.Join(mountpoint, ".batchfs", "stats.json"))
	}, nil)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNotMounted
	}
	if err != nil {
		return nil, s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return text, s, fmt.Errorf("read the statistics of %s: %w", mountpoint, err)
	}
	return text, s, nil
}
