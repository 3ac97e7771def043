package stress

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// An oracle knows the right contents of a mount. An engine in this process makes them from
// an undisturbed copy of the dataset. They are stored in files for the clients.
type oracle struct {
	Dir     string
	Victims []string
	Batches []expected

	byKey   map[engine.Key]*expected
	largest int64 // size of the largest file
}

// An expected describes one batch. No batch of an oracle contains two victims.
type expected struct {
	Key    engine.Key
	Victim int  // the victim whose damage may change the batch; -1: none
	Bad    bool // it does not open, because it contains a permanently corrupt file
	// It does not open without its victim.
	BadWithout bool
}

// stressEpochs are read in every round: neighbors, and a distant one.
var stressEpochs = []int{0, 1, 2, 41}

// makeOracle renders every form of every batch, with the dataset intact and without each
// victim.
func makeOracle(p pictures, s settings, dir string, random *rand.Rand) (*oracle, error) {
	ds, err := dataset.Open(context.Background(), p.pristine, dataset.Options{Prober: sample.Probe})
	if err != nil {
		return nil, err
	}
	defer ds.Close()
	o := &oracle{Dir: dir}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	ids, err := o.intact(ds, s)
	if err != nil {
		return nil, err
	}
	for v, id := range o.chooseVictims(ids, s.Catalog.Partition != shard.Ranges, ds.Len(), random) {
		o.Victims = append(o.Victims, ds.Path(id))
		if err := o.without(ds, p, s, v, ids, id); err != nil {
			return nil, err
		}
	}
	return o, store(filepath.Join(dir, "oracle.json"), o)
}

// intact renders all batches and returns the sample IDs of each, in order.
func (o *oracle) intact(ds *dataset.Dataset, s settings) (ids map[engine.Key][]int, err error) {
	e, err := engine.New(ds, s.options())
	if err != nil {
		return nil, err
	}
	defer e.Close()
	ids = map[engine.Key][]int{}
	for shard := range s.Catalog.Shards {
		for _, epoch := range stressEpochs {
			for batch := range e.Catalog().Plan.Batches(shard, epoch) {
				x := expected{Key: engine.Key{Shard: shard, Epoch: epoch, Batch: batch}, Victim: -1}
				if x.Bad, err = o.render(e, x.Key, -1); err != nil {
					return nil, err
				}
				o.Batches = append(o.Batches, x)
				if ids[x.Key], err = shownIDs(e, x); err != nil {
					return nil, err
				}
			}
		}
	}
	return ids, nil
}

// shownIDs returns the samples of a batch as planned, and those that replace some of them:
// what becomes of their files changes the batch as well.
func shownIDs(e *engine.Engine, x expected) (ids []int, err error) {
	slots, _ := e.Catalog().Plan.Batch(x.Key.Shard, x.Key.Epoch, x.Key.Batch, nil)
	for _, slot := range slots {
		ids = append(ids, int(slot.ID))
	}
	if x.Bad {
		return ids, nil
	}
	d, err := e.Describe(context.Background(), x.Key)
	for _, s := range d.Samples {
		ids = append(ids, int(s.ID))
	}
	return ids, err
}

// render writes every form of a batch. A batch that does not open has none.
func (o *oracle) render(e *engine.Engine, k engine.Key, without int) (bad bool, err error) {
	for _, form := range layout.Forms() {
		data, err := formBytes(e, k, form)
		if errors.Is(err, engine.ErrBad) {
			bad = true
			continue
		}
		if err != nil {
			return false, fmt.Errorf("%s.%s: %w", k, form, err)
		}
		o.largest = max(o.largest, int64(len(data)))
		if err := os.WriteFile(o.file(k, form, without), data, 0o644); err != nil {
			return false, err
		}
	}
	return bad, nil
}

func formBytes(e *engine.Engine, k engine.Key, form layout.Form) ([]byte, error) {
	if !form.Large() {
		d, err := e.Describe(context.Background(), k)
		if err != nil {
			return nil, err
		}
		return fusefs.RenderSmall(e.Catalog(), d, form)
	}
	f, err := e.Open(context.Background(), k, form)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return slices.Clone(f.Bytes()), nil
}

// chooseVictims chooses files that never come near one another: no two are in the same
// batch, and none could replace another.
func (o *oracle) chooseVictims(ids map[engine.Key][]int, elastic bool, samples int, random *rand.Rand) (victims []int) {
	for range 200 {
		id := random.IntN(samples)
		if len(victims) < maxVictims && o.apart(ids, elastic, append(slices.Clone(victims), id)) {
			victims = append(victims, id)
		}
	}
	return victims
}

func (o *oracle) apart(ids map[engine.Key][]int, elastic bool, victims []int) bool {
	for _, x := range o.Batches {
		var near []int
		for k, shown := range ids { // what replaces a sample of an elastic shard may be of another one
			if k.Epoch == x.Key.Epoch && (k.Shard == x.Key.Shard || elastic) && (k.Batch == x.Key.Batch || k.Batch == x.Key.Batch+1) {
				near = append(near, shown...)
			}
		}
		found := 0
		for _, v := range victims {
			if slices.Contains(near, v) {
				found++
			}
		}
		if found > 1 || found == 1 && x.Bad {
			return false
		}
	}
	return true
}

// without renders the batches of a victim while that file is missing.
func (o *oracle) without(ds *dataset.Dataset, p pictures, s settings, victim int, ids map[engine.Key][]int, id int) error {
	path := filepath.Join(p.pristine, ds.Path(id))
	if err := os.Rename(path, path+".away"); err != nil {
		return err
	}
	defer os.Rename(path+".away", path)
	e, err := engine.New(ds, s.options())
	if err != nil {
		return err
	}
	defer e.Close()
	for i := range o.Batches {
		x := &o.Batches[i]
		if !slices.Contains(ids[x.Key], id) {
			continue
		}
		x.Victim = victim
		if x.BadWithout, err = o.render(e, x.Key, victim); err != nil {
			return err
		}
	}
	return nil
}

// file is the path of a batch's bytes.
func (o *oracle) file(k engine.Key, form layout.Form, without int) string {
	name := strings.ReplaceAll(k.String(), "/", "_") + "." + form.Ext()
	if without >= 0 {
		name += fmt.Sprintf(".without-%d", without)
	}
	return filepath.Join(o.Dir, name)
}

func loadOracle(dir string) (*oracle, error) {
	o := &oracle{byKey: map[engine.Key]*expected{}}
	if err := load(filepath.Join(dir, "oracle.json"), o); err != nil {
		return nil, err
	}
	for i := range o.Batches {
		o.byKey[o.Batches[i].Key] = &o.Batches[i]
	}
	return o, nil
}

// outcomes returns all possible contents of a batch: with all files intact, and, if its
// victim was ever damaged, without the victim. A batch that does not open has none.
func (o *oracle) outcomes(x *expected, form layout.Form, damaged bool) (all [][]byte, err error) {
	files := []int{-1}
	if damaged {
		files = append(files, x.Victim)
	}
	for _, without := range files {
		data, err := os.ReadFile(o.file(x.Key, form, without))
		if err == nil {
			all = append(all, data)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return all, nil
}

// right reports whether a read has the only result that it may have when nothing is wrong.
func (o *oracle) right(w wish) bool {
	return w.Wrong == "" && (w.Errno == 0 || w.Errno == unix.EIO && o.isBad(w.Key, w.Form))
}

// isBad reports whether a batch holds a permanently corrupt file, so that it does not open.
func (o *oracle) isBad(k engine.Key, form layout.Form) bool {
	_, err := os.Stat(o.file(k, form, -1))
	return errors.Is(err, fs.ErrNotExist)
}
