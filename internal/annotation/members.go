package annotation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/target"
)

// Fields of a sample of a WebDataset.
const (
	maskField = "seg.png"
	jsonField = "json"
	textField = "txt"
)

// findMembers takes members of a tar as annotations of key.jpg: its mask is key.seg.png, objects
// and text are in key.json, and text is in key.txt. Which there are shows when they are opened; see
// takeMasks and takeMembers.
func (f *finder) findMembers() (bool, error) {
	if archive.ExtensionKey(f.Images) != "tar" {
		return false, nil
	}
	f.Naming = byKey
	f.Has = kindsOf(target.Masks, target.Boxes, target.Keypoints, target.Text)
	if f.Kinds[target.Masks] {
		f.Masks = &Masks{Path: f.Images, Field: maskField, Ending: "." + maskField}
		f.part("*." + maskField)
	}
	if f.Kinds[target.Boxes] || f.Kinds[target.Keypoints] || f.Kinds[target.Text] {
		f.Members = []string{jsonField}
	}
	if f.Kinds[target.Text] {
		f.Members = append(f.Members, textField)
	}
	return true, nil
}

// key is the path of a member up to the first dot in its name.
func key(path string) string {
	at := strings.LastIndexByte(path, '/') + 1
	name, _, _ := strings.Cut(path[at:], ".")
	return path[:at] + name
}

// takeMasks takes the masks that are in Masks.Field of archives.
func (f *Found) takeMasks(n int, path func(i int) string) {
	for i := range n {
		image, _ := f.image(f.nameOf(strings.TrimSuffix(path(i), f.Masks.Ending)), 0, 0, false)
		f.Builder.Mask(image, path(i))
	}
}

// maxMember limits the bytes of a member.
const maxMember = 1 << 20

// probeMember is the [dataset.Prober] of members that hold text.
func probeMember(_, _ []byte, size int64) (dataset.Header, error) {
	if size > maxMember {
		return dataset.Header{}, fmt.Errorf("it has %d bytes, more than %d", size, maxMember)
	}
	return dataset.Header{Format: "text", Height: 1, Width: 1}, nil
}

// takeMembers reads the members of an archive that say what is annotated, one dataset for each
// field that some sample has. An image needs one of them.
func (f *Found) takeMembers(ctx context.Context, fields []*dataset.Dataset) error {
	m := &manifest{finder: &finder{Found: f, Options: f.options}}
	f.Has = Kinds{target.Masks: f.Masks != nil}
	f.part("*." + strings.Join(f.Members, ", *."))
	for _, ds := range fields {
		workers := cmp.Or(f.options.Source.Workers, runtime.GOMAXPROCS(0))
		if ds.Remote {
			workers = max(workers, 32)
		}
		err := inOrder(ctx, workers, ds.Len(), func(ctx context.Context, i int) (text []byte, err error) {
			if ds.Problem(i) == "" {
				grow := func(n int) []byte { return make([]byte, n) }
				text, _, _, err = ds.LoadPart(ctx, i, 0, nil, grow, nil, 0)
			}
			return text, err
		}, func(i int, text []byte) {
			path := ds.Path(i)
			image, _ := f.image(key(path), 0, 0, false)
			say := func(rule string) { f.Builder.Bad(image, path+": "+rule) }
			r, bad := rowOf(path, text)
			if bad = cmp.Or(ds.Problem(i), bad); bad != "" {
				say(bad)
				return
			}
			m.fields(image, r, say)
		})
		if err != nil {
			return err
		}
	}
	f.numberNames()
	if lacks := f.options.Kinds.without(f.Has); lacks != (Kinds{}) {
		return &KindError{f.Images, f.Layout, lacks, f.Has}
	}
	return nil
}

// rowOf turns a member into a row with the columns of a manifest; bad is the rule that it breaks.
func rowOf(path string, text []byte) (r *dataset.Row, bad string) {
	r = &dataset.Row{Columns: map[string]string{}}
	if strings.HasSuffix(strings.ToLower(path), "."+textField) {
		quoted, _ := json.Marshal(strings.TrimSpace(string(text))) // strings always encode
		r.Columns["text"] = string(quoted)
		return r, ""
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, "it is no JSON object"
	}
	for name, value := range all {
		if string(value) != "null" {
			r.Columns[name] = string(value)
		}
	}
	return r, ""
}
