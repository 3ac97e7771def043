package convert

import (
	"fmt"
	"io/fs"
	"os"
	"path"
)

// sweep removes files of earlier runs, or of earlier rounds of this one, that are no longer
// wanted, such as the original of a sample that replaced a spoilt one. It also checks that all
// files exist.
func (c *conversion) sweep() error {
	for dir, samples := range c.tree.directories() {
		if err := c.sweepDir(dir, samples); err != nil {
			return err
		}
	}
	return nil
}

func (c *conversion) sweepDir(dir string, samples []int32) error {
	wanted := make(map[string]bool, len(samples)) // value: whether it exists
	for _, i := range samples {
		wanted[path.Base(c.name(int(i)))] = false
	}
	entries, err := os.ReadDir(c.stage.at(dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, ok := wanted[e.Name()]; ok {
			wanted[e.Name()] = true
		} else if !e.IsDir() && !(dir == "." && e.Name() == markerName) {
			if err := c.files.remove(path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for name, there := range wanted {
		if !there {
			return &fs.PathError{Op: "find", Path: c.stage.at(path.Join(dir, name)), Err: fmt.Errorf("it was made, and is gone: %w", fs.ErrNotExist)}
		}
	}
	return nil
}
