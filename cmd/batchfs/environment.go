package main

import (
	"os"
	"path/filepath"
)

// environment is everything that the process's environment decides. It is
// read here and nowhere else; the packages below get plain values.
type environment struct {
	cacheDir     string // where indexes are kept; "" keeps none
	notifySocket string // where systemd waits to hear that the mount is live
}

func readEnvironment(getenv func(string) string, uid int) environment {
	return environment{
		cacheDir:     cacheDir(getenv, uid),
		notifySocket: getenv("NOTIFY_SOCKET"),
	}
}

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
