package archive

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const (
	maxField  = 1 << 20 // bytes of a file with labels
	maxFields = 100     // files per sample
)

// groups joins the files of a tar into the samples of a WebDataset: neighbours with the same name
// up to the first dot. Only the end shows whether the tar is a WebDataset: if some image has a file
// beside it that is not an image, and either such files have labels or the images are not in
// directories, which would be classes.
type groups struct {
	*scanner
	key    string
	fields []string       // of the current sample
	image  int            // position of its image in Samples, -1 for none
	rank   int            // preference of its image's field
	label  Sample         // its label
	source int            // where the label came from: 0 for nowhere, then JSON, then a field of its own
	member []int32        // positions in Samples of the images of WebDataset samples
	paired bool           // some sample has another field
	inDirs bool           // some sample is in a directory
	fault  error          // the first error that counts only in a WebDataset
	read   map[string]int // label files used, by extension
}

// add takes a file of the tar.
func (g *groups) add(name string, h *tar.Header, at int64) error {
	stem, field, found := strings.Cut(base(name), ".")
	if !found {
		g.ignore(name)
		return nil
	}
	key, field := name[:len(name)-len(base(name))+len(stem)], strings.ToLower(field)
	if key != g.key {
		g.end()
		*g = groups{scanner: g.scanner, key: key, image: -1, label: Sample{Label: -1},
			fields: g.fields[:0], member: g.member, paired: g.paired, inDirs: g.inDirs, fault: g.fault, read: g.read}
	}
	switch {
	case slices.Contains(g.fields, field):
		g.fail(fmt.Errorf("%q is there twice", name))
	case len(g.fields) == maxFields:
		g.fail(fmt.Errorf("%q: the sample has more than %d files", name, maxFields))
	default:
		g.fields = append(g.fields, field)
	}
	if IsImage(name) || g.Image != "" && field == strings.ToLower(g.Image) {
		g.addImage(name, field, h, at)
		return nil
	}
	g.ignore(name)
	return g.readLabel(name, field, h, at)
}

func (g *groups) addImage(name, field string, h *tar.Header, at int64) {
	g.addFile(name, h, at)
	field = strings.TrimSuffix(field, "."+packed) // x.jpg.bfs is the jpg of x
	if rank := rank(strings.ToLower(g.Image), images, field); rank >= 0 && (g.image < 0 || rank < g.rank) {
		g.image, g.rank = len(g.Samples)-1, rank
	}
}

func (g *groups) fail(err error) {
	if g.fault == nil {
		g.fault = err
	}
}

// readLabel reads the label from a field. Its own errors count only in a WebDataset.
func (g *groups) readLabel(name, field string, h *tar.Header, at int64) error {
	source := 0
	switch {
	case g.Label != "" && field == strings.ToLower(g.Label), g.Label == "" && field == "cls":
		source = 2
	case field == "json":
		source = 1
	}
	switch {
	case source <= g.source:
		return nil
	case !plain(h):
		g.fail(fmt.Errorf("%q is a link or a sparse file", name))
		return nil
	case h.Size > maxField:
		g.fail(fmt.Errorf("%q is larger than %d bytes", name, maxField))
		return nil
	}
	text, err := g.bytes(at, int(h.Size))
	if err != nil {
		return err
	}
	label, found := Sample{Label: -1}, true
	if source == 1 {
		found, err = g.labelOfJSON(&label, text)
	} else {
		err = g.setText(&label, strings.TrimSpace(string(text)))
	}
	if err != nil {
		g.fail(fmt.Errorf("%q: %w", name, err))
	}
	if found {
		g.label, g.source = label, source
		if g.read == nil {
			g.read = map[string]int{}
		}
		g.read[field]++
	}
	return nil
}

func (g *groups) labelOfJSON(label *Sample, text []byte) (found bool, err error) {
	keys := []string{"label", "cls", "class"}
	if g.Label != "" {
		keys = []string{g.Label}
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return false, err
	}
	for _, key := range keys {
		raw, ok := all[key]
		if !ok || string(raw) == "null" {
			continue
		}
		switch raw[0] {
		case '"':
			var name string
			if err = json.Unmarshal(raw, &name); err == nil {
				err = g.setClass(label, name)
			}
		case '{', '[', 't', 'f':
			err = fmt.Errorf("%q is neither a whole number nor a name", key)
		default:
			err = g.setText(label, string(raw))
		}
		return true, err
	}
	return false, nil
}

// end completes the current sample.
func (g *groups) end() {
	if g.image < 0 {
		return
	}
	sample := &g.Samples[g.image]
	sample.Label, sample.Class = g.label.Label, g.label.Class
	g.member = append(g.member, int32(g.image))
	other := func(field string) bool { return !IsImage("." + field) }
	g.paired = g.paired || slices.ContainsFunc(g.fields, other)
	g.inDirs = g.inDirs || strings.Contains(g.key, "/")
}

func (g *groups) finish() error {
	g.end()
	s := g.scanner
	if g.Image != "" && !IsImage("."+g.Image) { // samples may lack the requested field
		g.named()
		return nil
	}
	switch s.Kind = "tar"; {
	case g.Image != "" && len(g.member) == 0 && len(s.Samples) > 0:
		return fmt.Errorf("no sample has an image %q", g.Image)
	case g.paired && g.Label != "" && g.read == nil && g.fault == nil:
		return fmt.Errorf("no sample has a label %q", g.Label)
	case !g.paired || g.inDirs && g.read == nil:
		s.files()
		return nil
	case g.fault != nil:
		return g.fault
	}
	for field, n := range g.read {
		if s.Ignored[field] -= n; s.Ignored[field] <= 0 {
			delete(s.Ignored, field)
		}
	}
	g.named()
	return nil
}

// named keeps only the WebDataset's samples.
func (g *groups) named() {
	s := g.scanner
	s.Kind, s.Ordered = "webdataset", true
	s.Keep(func(i int) bool {
		_, is := slices.BinarySearch(g.member, int32(i))
		return is
	})
	s.nameRows(true) // a key that appears again later is another sample
}
