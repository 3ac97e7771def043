package convert

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/sample"
)

// Errors of Write; test for them with errors.Is.
var (
	// ErrNotEmpty: the output exists, is not empty, and is not what this run would make.
	ErrNotEmpty = errors.New("directory is not empty")
	// ErrInside: the result would lie inside the dataset and become part of it.
	ErrInside = errors.New("lies inside the dataset")
	// ErrMountpoint: a file system is mounted at the output, so a rename cannot replace it.
	ErrMountpoint = errors.New("is a mountpoint")
	// ErrBusy: another process is writing the same result.
	ErrBusy = errors.New("another batchfs convert is writing it")
	// ErrForeign: something else occupies the name of the unfinished tree.
	ErrForeign = errors.New("is not the unfinished work of batchfs convert")
	// ErrSettings: an unfinished run had other settings.
	ErrSettings = errors.New("was begun with other settings")
	// ErrSource: the dataset changed during this run or since an unfinished run began.
	ErrSource = errors.New("the dataset changed")
	// ErrSpace: the disk is full. What was made so far stays, so that a run can continue it.
	ErrSpace = errors.New("not enough space")
	// ErrMemory: a sample takes more memory than Options.Memory.
	ErrMemory = errors.New("a sample is too large")
	// ErrName: a file of the result cannot have its name; the text names the files.
	ErrName = errors.New("no name for its copy")
)

// classified wraps an error about a full disk, an exceeded quota, a lack of memory or a changed
// file in the error that says so.
func classified(err error) error {
	wrap := func(class error, causes ...error) {
		caused := slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
		if caused && !errors.Is(err, class) {
			err = fmt.Errorf("%w: %w", class, err)
		}
	}
	wrap(ErrSpace, unix.ENOSPC, unix.EDQUOT)
	wrap(ErrMemory, sample.ErrMemory)
	wrap(ErrSource, dataset.ErrChanged, dataset.ErrMissing, dataset.ErrNotFile)
	return err
}

// spoils says whether an error makes a sample unreadable: the file is at fault, and it has not
// changed.
func spoils(err error) bool {
	return fault.Of(err) == fault.File && !errors.Is(classified(err), ErrSource)
}

// Plan describes the work before it begins.
type Plan struct {
	Out     string `json:"out"`     // path of the result, absolute
	Staging string `json:"-"`       // where the result grows, absolute
	Resumed bool   `json:"resumed"` // an unfinished run is continued
	Shares         // requested or determined

	Samples       int `json:"samples"`
	Raw           int `json:"raw"`            // raw in the end
	AlreadyRaw    int `json:"already_raw"`    // of these, already raw before
	Packed        int `json:"packed"`         // packed in the end
	AlreadyPacked int `json:"already_packed"` // of these, already packed before
	Linked        int `json:"linked"`         // kept as hard links; an estimate
	Cloned        int `json:"cloned"`         // kept as clones, which share their blocks with the original
	Copied        int `json:"copied"`         // kept as copies

	Columns

	RawBytes    int64 `json:"raw_bytes"`    // of the samples to make raw; an upper bound if they may become PGM
	PackedBytes int64 `json:"packed_bytes"` // of the samples to pack, estimated
	CopyBytes   int64 `json:"copied_bytes"` // of the files to copy
	NeedBytes   int64 `json:"needed_bytes"` // free space that is still needed, in whole blocks
	FreeBytes   int64 `json:"free_bytes"`   // free space
}

// Columns are those of the source besides paths and labels.
type Columns struct {
	Carried []string  `json:"columns,omitempty"` // the result's manifest has them
	LeftOut []LeftOut `json:"columns_left_out,omitempty"`
	Turned  int       `json:"turned,omitempty"` // samples that cannot be raw: what columns say fits the stored pixels only
}

// LeftOut are columns that the result's manifest lacks.
type LeftOut struct {
	Columns []string `json:"columns"`
	Why     string   `json:"why"`
}

// Report describes what was done.
type Report struct {
	Plan
	Finished bool `json:"finished_before"` // an earlier run did everything, and this one nothing

	Converted  int `json:"converted"`  // made raw or packed by this run
	Unpackable int `json:"unpackable"` // chosen to be packed, but without a packed form
	Reused     int `json:"reused"`     // complete files of an earlier run
	Symlinked  int `json:"symlinked"`  // kept as symbolic links, because they could be neither linked nor read
	// ColumnFiles are the files that columns name, such as masks, which this run made.
	ColumnFiles int `json:"column_files,omitempty"`

	// Manifest is the absolute path of the result's manifest; "" for a directory dataset.
	Manifest string `json:"manifest,omitempty"`
	// Classes is the absolute path of a file of class names that a mount of the result needs; "" if
	// the mount finds them itself.
	Classes string `json:"classes,omitempty"`

	RawFormat string `json:"raw_format"`
	// Unreadable are the samples that were kept because they cannot be read, by ID. Samples
	// that seem fine were only read if they were chosen to be raw or packed.
	Unreadable []dataset.BadFile `json:"unreadable"`
}
