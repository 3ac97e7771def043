package dataset

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/store"
)

// object is a file, or an object in a store, that holds many samples, in the version that was
// indexed.
type object struct {
	name    string // relative to the dataset's directory, or the store's prefix
	version string // "": a file, or the store has no versions
	id      Identity
}

// member says where in an object a sample is.
type member struct {
	object int32 // into table.objects
	archive.Place
}

const nsPerSecond = 1e9

// identityOf returns the identity of an object in a store. Stores report times in whole seconds at
// best, so the fraction of a second is derived from the version. An object with neither version nor
// time may change unnoticed, so it never has the same identity twice.
func identityOf(o store.Object) Identity {
	h := fnv.New64a()
	io.WriteString(h, o.Version)
	fraction := h.Sum64()
	if o.Version == "" && o.ModTime == 0 {
		fraction = rand.Uint64()
	}
	return Identity{Size: o.Size, ModTime: o.ModTime/nsPerSecond*nsPerSecond + int64(fraction%nsPerSecond)}
}

// stored returns the object in a store that has an identity.
func stored(name, version string, id Identity) file {
	f := noFile
	f.whole, f.id = id, id
	f.object = store.Object{Name: name, Version: version, Size: id.Size, ModTime: id.ModTime / nsPerSecond * nsPerSecond}
	return f
}

// versions holds the versions of samples that are objects in a store.
type versions struct {
	at   []int64 // by row, where its version starts in text; -1: not known
	text []byte  // each version follows its length
}

const maxVersion = 255

func (v *versions) set(row int, version string) error {
	if len(version) > maxVersion {
		return fmt.Errorf("the store names a version in %d bytes, more than the %d that can be", len(version), maxVersion)
	}
	v.add(row)
	if at := v.at[row]; at >= 0 && len(version) <= int(v.text[at]) { // overwrite the old version
		v.text[at] = byte(len(version))
		copy(v.text[at+1:], version)
		return nil
	}
	v.at[row] = int64(len(v.text))
	v.text = append(append(v.text, byte(len(version))), version...)
	return nil
}

// add makes room for a row whose version is not known.
func (v *versions) add(row int) {
	for len(v.at) <= row {
		v.at = append(v.at, -1)
	}
}

func (v *versions) get(row int) string {
	if row >= len(v.at) || v.at[row] < 0 {
		return ""
	}
	at := v.at[row]
	return string(v.text[at+1 : at+1+int64(v.text[at])])
}

// ofStore turns a store's error into one of this package. Errors that concern neither the object
// nor an outage, such as denied access, say nothing about the sample.
func ofStore(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return ErrStopped
	case errors.Is(err, store.ErrNotExist):
		return ErrMissing
	case errors.Is(err, store.ErrChanged):
		return ErrChanged
	case errors.Is(err, store.ErrDenied), errors.Is(err, store.ErrNoPlace):
		return err
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// objectOf returns the object with row i, with what the index knows about it.
func (s *source) objectOf(t *table, i int) file {
	name, version := s.prefix+s.file(t, i), ""
	place, whole := t.place(i)
	if place == nil {
		t.mu.Lock()
		whole, version = t.row[i].id, t.versions.get(i)
		t.mu.Unlock()
	} else {
		version = t.objects[t.members[i].object].version
	}
	f := stored(name, version, whole)
	if place != nil {
		f.begin(place)
	}
	return f
}

// openObject is openRow in a store. It asks the store only for facts that the index lacks.
func (s *storage) openObject(ctx context.Context, t *table, i int) (file, error) {
	f := s.src.objectOf(t, i)
	if f.whole.Known() {
		return f, nil
	}
	o, err := s.src.remote.Stat(ctx, f.object.Name)
	if err != nil {
		return noFile, ofStore(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.versions.set(i, o.Version); err != nil {
		return noFile, err
	}
	there := stored(f.object.Name, o.Version, identityOf(o))
	if f.place != nil {
		there.begin(f.place)
	}
	return there, nil
}

// fetch reads exactly len(p) bytes of an object.
func (s *storage) fetch(ctx context.Context, f *file, p []byte, offset int64) (int, error) {
	if b := f.has(offset, len(p)); b != nil {
		return copy(p, b), nil
	}
	if err := s.limit.takeAll(ctx, len(p)); err != nil {
		return 0, err
	}
	n, err := s.src.remote.ReadAt(ctx, f.object, p, offset)
	return n, ofStore(err)
}

// has returns n bytes of the object if they were read ahead.
func (f *file) has(offset int64, n int) []byte {
	if from := offset - f.aheadAt; from >= 0 && from+int64(n) <= int64(len(f.ahead)) {
		return f.ahead[from:][:n:n]
	}
	return nil
}

// section reads an object while it is searched for samples.
type section struct {
	ctx     context.Context
	storage *storage
	file    file
}

// ReadAt is that of [io.ReaderAt].
func (s *section) ReadAt(p []byte, offset int64) (int, error) {
	n := int(max(0, min(int64(len(p)), s.file.whole.Size-offset)))
	got, err := s.storage.fill(s.ctx, &s.file, p[:len(p):len(p)], offset, n) // the memory after p is not ours
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return got, err
}

// objectAt reads an object of a store.
type objectAt struct {
	ctx    context.Context
	store  store.Store
	object store.Object
}

// ReadAt is that of [io.ReaderAt], but makes no request beyond the end.
func (o *objectAt) ReadAt(p []byte, offset int64) (int, error) {
	return o.store.ReadAt(o.ctx, o.object, p, offset)
}
