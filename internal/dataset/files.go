package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/batchfs/batchfs/internal/owned"
	"github.com/batchfs/batchfs/internal/resolve"
	"github.com/batchfs/batchfs/internal/store"
)

// factFiles says where the facts about a source are kept.
type factFiles struct {
	src     *source
	part    Share  // that is opened
	whole   string // the file of the index of the whole dataset; "": none
	target  string // that which is made: whole, or that of the part
	relied  bool   // on the index: it is an error if there is none
	problem string // why there is none, unless none was asked for
	log     *slog.Logger
}

// findFiles determines where the facts about a source are kept. Having no place for them is an
// error only if the options rely on an index.
func findFiles(o *Options, src *source) (f factFiles, err error) {
	f = factFiles{src: src, part: o.Part, log: o.Logger}
	dir := o.CacheDir
	if o.IndexAt != "" && !store.IsURL(o.IndexAt) {
		dir = o.IndexAt
	}
	f.relied = o.IndexAt != "" || o.Part.N > 0 || o.Merge
	switch {
	case dir == "" && f.relied:
		return f, fmt.Errorf("%w: there is no cache directory for it", ErrIndexAt)
	case dir == "":
		return f, nil
	}
	f.whole, err = indexPath(dir, src)
	if err != nil && f.relied {
		return f, fmt.Errorf("%w: %w", ErrKeepIndex, err)
	} else if err != nil {
		f.keepNone(err)
		return f, nil
	}
	if f.target = f.whole; o.Part.N > 0 {
		f.target = PartPath(indexBase(f.whole), o.Part, factsExtension)
	}
	return f, nil
}

// keepNone goes on without an index.
func (f *factFiles) keepNone(err error) {
	f.log.Warn("no index is kept", "reason", err)
	f.problem = err.Error()
	f.whole, f.target = "", ""
}

// indexPath returns the path of the dataset's index file in a directory. Other users must not be
// able to write to it.
func indexPath(dir string, src *source) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	// A manifest's directory may well be a home directory. Its dataset is only what it lists.
	if src.folder() && src.remote == nil && resolve.Within(resolve.Links(dir), src.dir) {
		return "", fmt.Errorf("%s: the index would lie inside the dataset", dir)
	}
	if info, err := os.Stat(dir); err == nil {
		if err := owned.Check(dir, info); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, indexName(src)), nil
}

// indexName is the name of a dataset's index file.
func indexName(src *source) string {
	sum := sha256.Sum256([]byte(src.identity()))
	return hex.EncodeToString(sum[:16]) + factsExtension
}

func indexBase(indexFile string) string { return strings.TrimSuffix(indexFile, factsExtension) }

// others are the files about the dataset other than the index of the last listing.
func (f *factFiles) others() (paths []string) {
	if f.whole == "" {
		return nil
	}
	base := escapePattern(indexBase(f.whole))
	for _, pattern := range []string{"-*-of-*" + factsExtension, "-*-of-*" + factsExtension + journalMark + "*", factsExtension + journalMark + "*"} {
		files, _ := filepath.Glob(base + pattern)
		paths = append(paths, files...)
	}
	return paths
}

// removeJournals removes the journals of all earlier openings: the index has everything in them.
func (f *factFiles) removeJournals() {
	for _, path := range f.others() {
		own := strings.HasPrefix(path, f.target+journalMark)
		if own || f.part.N == 0 && !strings.HasSuffix(path, factsExtension) {
			_ = os.Remove(path)
		}
	}
}
