package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/convert"
)

// toStdout stands for standard input as FILE, and for standard output as directory.
const toStdout = "-"

func unpackCommand(c *console) *cli.Command {
	return command("unpack FILE...", func(f *flagSet) runner {
		u := &unpacking{console: c, written: map[string]string{}}
		f.derived("out", "beside each FILE", "write into the directory `DIR`, or - for standard output", anything(&u.dir, "a directory"))
		f.toggle(&u.force, "force", false, "replace files that are there")
		f.toggle(&u.remove, "remove", false, "remove each FILE once its original is written")
		jsonFlag(c, f, "print one JSON object")
		f.check(func() error {
			if len(f.args) == 1 && f.args[0] == toStdout && !f.Changed("out") {
				u.dir = toStdout
			}
			switch {
			case u.dir != toStdout:
				return nil
			case len(f.args) > 1:
				return usage("--out - takes one FILE, not %d: nothing would say where one image ends", len(f.args))
			case u.remove:
				return usage("--remove is not for --out -: whether what reads it gets all of it is not known here")
			case c.asJSON:
				return usage("--json is not for --out -: both are written to standard output")
			case interactive(c.out):
				return hint(usage("--out - would write an image to the terminal"), "batchfs unpack --out - FILE > ORIGINAL")
			}
			return nil
		})
		return u.run
	})
}

// An unpacking is one run of unpack.
type unpacking struct {
	*console
	dir           string // directory to write to; "": that of each file
	force, remove bool
	written       map[string]string // the files made in this run, and the packed file that each was made from
}

// run unpacks one file after another. If one cannot be unpacked, it continues with the next.
func (u *unpacking) run(ctx context.Context, args []string) error {
	var result unpackResult
	for _, name := range args {
		if ctx.Err() != nil {
			return errInterrupted
		}
		f := unpackedFile{File: name}
		err := u.unpack(&f)
		if err != nil {
			f.Error = oneLine(err.Error())
			report(u.err, err)
		}
		result.Files = append(result.Files, f)
	}
	if u.dir == toStdout {
		return result.verdict()
	}
	return u.show(result)
}

func (u *unpacking) unpack(f *unpackedFile) error {
	packed, info, err := u.read(f.File)
	if errors.Is(err, unix.EISDIR) {
		return hint(err, "to unpack all packed images in it: find %s -name '*%s' -exec batchfs unpack {} +", shellWord(f.File), decode.PackedExt)
	}
	if err != nil {
		return err
	}
	if decode.Sniff(packed) != decode.Packed {
		return hint(fmt.Errorf("%s is not a packed image", displayName(f.File)),
			"only images that batchfs convert --packed-ratio has packed can be unpacked; all others are originals")
	}
	data, err := decode.Unpack(packed)
	switch {
	case errors.Is(err, decode.ErrNoPackedForm):
		return fmt.Errorf("%s was packed for memory, without what else the file had, and cannot be unpacked", displayName(f.File))
	case err != nil:
		return fmt.Errorf("%s: %w", displayName(f.File), err)
	case u.dir == toStdout:
		_, err := u.out.Write(data)
		return err
	}
	f.Original, err = u.original(f.File, data)
	if err != nil {
		return err
	}
	if before, twice := u.written[f.Original]; twice {
		return fmt.Errorf("%s: %s was made of %s just now; unpack it into another directory", displayName(f.File), displayName(f.Original), displayName(before))
	}
	err = convert.WriteOriginal(f.Original, data, info, u.force)
	if errors.Is(err, fs.ErrExist) {
		return hint(fmt.Errorf("%s is there already", displayName(f.Original)), "to replace it, add --force; to write elsewhere: --out DIR")
	}
	if err != nil {
		return err
	}
	u.written[f.Original], f.Bytes = f.File, len(data)
	if u.remove && f.File != toStdout {
		return os.Remove(f.File)
	}
	return nil
}

// read returns the content of a file.
func (u *unpacking) read(name string) (data []byte, info fs.FileInfo, err error) {
	in := os.Stdin
	if name != toStdout {
		if in, err = os.Open(name); err != nil {
			return nil, nil, err
		}
		defer in.Close()
	}
	if info, err = in.Stat(); err != nil {
		return nil, nil, err
	}
	most := u.memoryLimit(0)
	if info.Size() <= most {
		data, err = io.ReadAll(io.LimitReader(in, most+1))
	}
	if err == nil && max(info.Size(), int64(len(data))) > most {
		err = fmt.Errorf("%s is larger than %s, half of the memory that is free", displayName(name), formatBytes(most))
	}
	return data, info, err
}

// original returns the path of the file from which a packed one was made.
func (u *unpacking) original(name string, data []byte) (string, error) {
	dir, base := filepath.Split(name)
	short := convert.Original(base, data)
	if short == "" {
		return "", hint(fmt.Errorf("%s: its name does not end in %s, so that of the original is not known", displayName(name), decode.PackedExt),
			"batchfs unpack --out - %s > ORIGINAL", shellWord(name))
	}
	if u.dir != "" {
		dir = u.dir
	}
	return filepath.Join(dir, short), nil
}

// unpackedFile is the result for one file.
type unpackedFile struct {
	File     string `json:"file"`
	Original string `json:"original,omitempty"` // the path that was written, or would have been
	Bytes    int    `json:"bytes,omitempty"`    // its size
	Error    string `json:"error,omitempty"`
}

// unpackResult is the output of unpack.
type unpackResult struct {
	Files []unpackedFile `json:"files"`
}

func (r unpackResult) print(out io.Writer) {
	for _, f := range r.Files {
		if f.Error == "" {
			fmt.Fprintf(out, "%s: %s, %s\n", displayName(f.File), displayName(f.Original), formatBytes(int64(f.Bytes)))
		}
	}
}

// verdict is the error that ends the command if not all files were unpacked.
func (r unpackResult) verdict() error {
	for _, f := range r.Files {
		if f.Error != "" {
			return exitSilently(statusFailed)
		}
	}
	return nil
}
