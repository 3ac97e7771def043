package main

import (
	"os"
	"path/filepath"

	"github.com/batchfs/batchfs/pinned"
)

// environment holds everything taken from environment variables. They are read here and
// nowhere else; the packages below get plain values.
type environment struct {
	cacheDir     string // where indexes are stored; "": nowhere
	notifySocket string // where systemd expects the ready notification
	affinity     string // CPUs of the workers, unless a flag gives them
	gpus         string // CUDA_VISIBLE_DEVICES
	buffers      pinned.Policy
	buffersError error // why buffers could not be parsed
}

func readEnvironment(getenv func(string) string, uid int) environment {
	e := environment{
		cacheDir:     cacheDir(getenv, uid),
		notifySocket: getenv("NOTIFY_SOCKET"),
		affinity:     getenv(affinityVariable),
		gpus:         getenv("CUDA_VISIBLE_DEVICES"),
	}
	e.buffers, e.buffersError = pinned.ParsePolicy(func(name string) (string, bool) {
		value := getenv(name)
		return value, value != ""
	})
	return e
}

// affinityVariable is the environment variable for --affinity.
const affinityVariable = "BATCHFS_AFFINITY_MASK"

// cacheDir follows the XDG base directory specification. Under fstab and systemd, HOME may
// be unset; root then uses the system's cache directory.
func cacheDir(getenv func(string) string, uid int) string {
	if dir := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "batchfs")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "batchfs")
	}
	if uid == 0 {
		return "/var/cache/batchfs"
	}
	return ""
}

func processEnvironment() environment {
	return readEnvironment(os.Getenv, os.Getuid())
}
