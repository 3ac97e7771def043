package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Keys of the index's metadata, besides checksumKey. Names are written as Go string literals,
// one per line, because they may contain any byte.
const (
	versionKey     = "batchfs.version"
	sourceKey      = "batchfs.dataset"
	factsKey       = "batchfs.facts"
	classesKey     = "batchfs.classes"
	directoriesKey = "batchfs.directories" // "<mtime_ns> <name>", "?" before an unsettled time
)

var errForeign = errors.New("of another version, or of another dataset")

// metadata is the index without its table.
func (x *index) metadata() (map[string]string, error) {
	facts, err := json.Marshal(x.facts)
	if err != nil {
		return nil, err
	}
	var classes, dirs strings.Builder
	for _, c := range x.classes {
		classes.WriteString(strconv.Quote(c) + "\n")
	}
	for _, d := range x.dirs {
		if d.Unsettled {
			dirs.WriteByte('?')
		}
		fmt.Fprintf(&dirs, "%d %s\n", d.Time, strconv.Quote(d.path))
	}
	return map[string]string{
		versionKey: indexVersion, sourceKey: strconv.Quote(x.name), factsKey: string(facts),
		classesKey: classes.String(), directoriesKey: dirs.String(), checksumKey: checksumZero,
	}, nil
}

// readMetadata is the inverse of metadata, for a given source.
func readMetadata(lookup func(string) (string, bool), src *source) (*index, error) {
	get := func(key string) string { v, _ := lookup(key); return v }
	if get(versionKey) != indexVersion || get(sourceKey) != strconv.Quote(src.name()) {
		return nil, errForeign
	}
	x := &index{name: src.name()}
	if err := json.Unmarshal([]byte(get(factsKey)), &x.facts); err != nil {
		return nil, err
	}
	if x.facts.Manifest != (src.manifest != "") {
		return nil, errForeign
	}
	var err error
	for line := range strings.Lines(get(classesKey)) {
		var class string
		if class, err = strconv.Unquote(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, err
		}
		x.classes = append(x.classes, strings.Clone(class)) // a substring would keep all the metadata alive
	}
	for line := range strings.Lines(get(directoriesKey)) {
		d, err := parseDirStamp(strings.TrimSuffix(line, "\n"))
		if err == nil {
			err = x.facts.checkDir(d.path)
		}
		if err != nil {
			return nil, err
		}
		x.dirs = append(x.dirs, d)
	}
	return x, nil
}

func parseDirStamp(line string) (d dirStamp, err error) {
	line, d.Unsettled = strings.CutPrefix(line, "?")
	mtime, name, _ := strings.Cut(line, " ")
	if d.Time, err = strconv.ParseInt(mtime, 10, 64); err != nil {
		return d, err
	}
	d.path, err = strconv.Unquote(name)
	return d, err
}
