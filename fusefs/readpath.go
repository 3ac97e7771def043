package fusefs

import (
	"fmt"
	"log/slog"
)

// A readPath is how large forms are read, chosen once before the mount.
type readPath string

// The values of Options.ReadPath, and, except for auto, of Session.ReadPath.
const (
	auto        readPath = "auto"
	passthrough readPath = "passthrough"
	direct      readPath = "direct"
)

// chooseReadPath tries passthrough on a file like those of batches, unless direct is
// requested. reason says why the choice is not passthrough. If passthrough is requested but
// unavailable, it returns an error instead of silently being slower.
func chooseReadPath(wanted readPath, src source, log *slog.Logger) (path readPath, reason string, err error) {
	switch wanted {
	case direct:
		return direct, "it was asked for", nil
	case passthrough, auto:
	default:
		return "", "", fmt.Errorf("read path must be %s, %s or %s, not %q", auto, passthrough, direct, wanted)
	}
	err = tryBatchFile(src)
	switch {
	case err == nil:
		return passthrough, "", nil
	case wanted == passthrough:
		return "", "", fmt.Errorf("passthrough cannot be had: %w", err)
	}
	log.Info("batches are read through the daemon", "reason", err)
	return direct, err.Error(), nil
}

func tryBatchFile(src source) error {
	fd, closeFile, err := src.ProbeFile()
	if err != nil {
		return fmt.Errorf("batch memory is no file: %w", err)
	}
	defer closeFile()
	return tryPassthrough(fd)
}
