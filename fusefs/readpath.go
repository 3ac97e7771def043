package fusefs

import (
	"fmt"
	"log/slog"
)

// A readPath is how large forms are read, decided once before the mount.
type readPath string

// The values of Options.ReadPath, and of Session.ReadPath but for auto.
const (
	auto        readPath = "auto"
	passthrough readPath = "passthrough"
	direct      readPath = "direct"
)

// chooseReadPath tries passthrough on a file like those of batches, unless nobody
// wants it. The reason says why it is not passthrough. Passthrough that was asked
// for and cannot be had is an error: it would be slower than promised, silently.
func chooseReadPath(wanted readPath, m memory, log *slog.Logger) (path readPath, reason string, err error) {
	switch wanted {
	case direct:
		return direct, "it was asked for", nil
	case passthrough, auto:
	default:
		return "", "", fmt.Errorf("read path must be %s, %s or %s, not %q", auto, passthrough, direct, wanted)
	}
	err = tryBatchFile(m)
	switch {
	case err == nil:
		return passthrough, "", nil
	case wanted == passthrough:
		return "", "", fmt.Errorf("passthrough cannot be had: %w", err)
	}
	log.Info("batches are read through the daemon", "reason", err)
	return direct, err.Error(), nil
}

func tryBatchFile(m memory) error {
	fd, closeFile, err := m.ProbeFile()
	if err != nil {
		return fmt.Errorf("batch memory is no file: %w", err)
	}
	defer closeFile()
	return tryPassthrough(fd)
}
