package main

import (
	"os"
	"path/filepath"

	"github.com/batchfs/batchfs/pinned"
)

// environment is everything that the process's environment decides. It is
// read here and nowhere else; the packages below get plain values.
type environment struct {
	cacheDir     string // where indexes are kept; "" keeps none
	notifySocket string // where systemd waits to hear that the mount is live
	affinity     string // the CPUs of the workers, where no flag says so
	gpus         string // CUDA_VISIBLE_DEVICES
	buffers      pinned.Policy
	buffersError error // why that is not what the environment asks for
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

// affinityVariable is --affinity for those who configure by environment.
const affinityVariable = "BATCHFS_AFFINITY_MASK"

// cacheDir follows the XDG base directories. Under fstab and systemd HOME may
// be unset; root then has the system's cache directory.
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
