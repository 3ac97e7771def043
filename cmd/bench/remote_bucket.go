package main

import (
	"archive/tar"
	"bufio"
	"crypto/md5"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fillBucket makes a bucket of a dataset's files: links to them, so that the page cache has each of them once, and a tar of
// them.
func fillBucket(d *imageSet, bucket string) error {
	if err := os.MkdirAll(bucket, 0o755); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(bucket, d.kind+".tar"))
	if err != nil {
		return err
	}
	defer out.Close()
	buffered := bufio.NewWriterSize(out, 1<<20)
	w := tar.NewWriter(buffered)
	for i, file := range d.files {
		if err := putSample(w, filepath.Join(bucket, d.kind, d.Path(i)), d.Path(i), file); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), buffered.Flush(), tagObject(out.Name(), nil), out.Close())
}

// putSample puts one file into the bucket and the tar.
func putSample(w *tar.Writer, object, name, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(object), 0o755); err != nil {
		return err
	}
	if err := os.Link(file, object); err != nil {
		return err
	}
	if err := tagObject(object, content); err != nil {
		return err
	}
	err = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write(content)
	}
	return err
}

// tagObject gives a file the ETag that VersityGW would have given it when it was uploaded.
func tagObject(path string, content []byte) error {
	return unix.Setxattr(path, "user.etag", fmt.Appendf(nil, `"%x"`, md5.Sum(content)), 0)
}
