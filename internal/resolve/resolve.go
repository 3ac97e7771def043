// Package resolve compares paths, parts of which may not exist yet.
package resolve

import "path/filepath"

// Links follows the links in an absolute path whose last components may not exist.
func Links(path string) string {
	real, err := filepath.EvalSymlinks(path)
	switch parent := filepath.Dir(path); {
	case err == nil:
		return real
	case parent == path:
		return path
	default:
		return filepath.Join(Links(parent), filepath.Base(path))
	}
}

// Within says whether path is dir or lies below it. Both are resolved.
func Within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
