package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/cuda"
	"github.com/batchfs/batchfs/gpu"
)

// What `make gpucheck` runs (-only gpu): whether the kernels make the same bytes on this GPU as processors do, whether a
// mount recovers, and how fast all of it is. Nothing but the batchfs binary is needed beside this one.

// onGPU begins the names of these measurements.
const onGPU = "gpu/"

// A card is the GPU that is measured.
type card struct {
	cuda.Device
	cuda int // the latest version that the driver supports, as in cuda.Driver
}

// findGPU finds the one that mounts use by default. The error is the one that batchfs doctor shows.
func findGPU() (*card, error) {
	found, err := gpu.Find("auto")
	if err != nil {
		return nil, fmt.Errorf("there is no GPU to check: %w (try batchfs doctor)", err)
	}
	defer found.Close()
	driver, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	devices, err := driver.Devices()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(devices, func(d cuda.Device) bool { return d.UUID == found.UUID() })
	return &card{devices[i], driver.Version}, nil
}

func (c *card) String() string {
	version := "unknown"
	if words := strings.Fields(line("/proc/driver/nvidia/version", "NVRM version:")); len(words) > 0 {
		version = words[max(0, slices.IndexFunc(words, func(w string) bool { return strings.Trim(w, "0123456789.") == "" }))]
	}
	return fmt.Sprintf("%s, %s, compute capability %d.%d, %.0f GB; NVIDIA's driver %s, for CUDA up to %d.%d",
		c.Name, c.UUID, c.Compute[0], c.Compute[1], float64(c.Memory)/1e9, version, c.cuda/1000, c.cuda%1000/10)
}

// flags are those of a mount that uses the GPU.
func (c *card) flags(more ...string) []string { return append([]string{"--gpu", c.UUID}, more...) }

// An area is memory for one piece of work after another: on the host, registered with the GPU, and on the GPU.
type area struct {
	driver gpu.Driver
	host   []byte
	device gpu.Memory
	size   int64 // of device
}

// grow makes the two parts at least so many bytes large. Their contents are undefined afterwards.
func (a *area) grow(host, device int) (err error) {
	if host > len(a.host) {
		if err := a.freeHost(); err != nil {
			return err
		}
		if a.host, err = unix.Mmap(-1, 0, host, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			return err
		}
		if err := a.driver.Register(a.host); err != nil {
			return err
		}
	}
	if int64(device) > a.size {
		if err := a.freeDevice(); err != nil {
			return err
		}
		size := (int64(device) + gpu.SlabUnit - 1) / gpu.SlabUnit * gpu.SlabUnit
		if a.device, err = a.driver.Alloc(size); err != nil {
			return err
		}
		a.size = size
	}
	return nil
}

func (a *area) freeHost() error {
	if a.host == nil {
		return nil
	}
	old := a.host
	a.host = nil
	return errors.Join(a.driver.Unregister(old), unix.Munmap(old))
}

func (a *area) freeDevice() error {
	if a.size == 0 {
		return nil
	}
	a.size = 0
	return a.driver.Release(a.device)
}

func (a *area) close() error { return cmp.Or(a.freeHost(), a.freeDevice()) }

// contents reads some files.
func contents(paths []string) (all [][]byte, err error) {
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// bandwidth is how many bytes a second it is to do something with so many bytes, some times, since it began.
func bandwidth(bytes int64, times int, took time.Duration) float64 {
	return float64(bytes) * float64(times) / took.Seconds()
}

// quantile is the smallest of the values that at least the share p of them does not exceed.
func quantile(x []float64, p float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[max(int(math.Ceil(p*float64(len(x))))-1, 0)]
}
