//go:build linux && cgo && (amd64 || arm64)

package machine

import (
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
)

// masks are the devices' answers. A question without an answer has no function in the mock, and
// panics, so each case shows which questions are asked.
type masks struct {
	socket, nearest []uint
	socketRet       nvml.Return
}

const missing = nvml.ERROR_FUNCTION_NOT_FOUND // what internal/dynlib answers for the driver

// dgx is a machine of 8 devices.
func dgx(m masks) *dgxa100.Server {
	server := dgxa100.New()
	for i, d := range server.Devices {
		d := d.(*dgxa100.Device)
		d.UUID = "GPU-" + string(rune('a'+i)) + "-4141"
		if m.socket != nil {
			d.GetCpuAffinityWithinScopeFunc = func(n int, scope nvml.AffinityScope) ([]uint, nvml.Return) {
				if n != 200 || scope != nvml.AFFINITY_SCOPE_SOCKET {
					panic("asked for something else")
				}
				return m.socket, m.socketRet
			}
		}
		if m.nearest != nil {
			d.GetCpuAffinityFunc = func(int) ([]uint, nvml.Return) {
				if len(m.nearest) == 0 {
					return make([]uint, 4), missing
				}
				return m.nearest, nvml.SUCCESS
			}
		}
	}
	return server
}

// without takes a function from a driver.
var without = map[string]func(*dgxa100.Server){
	"index": func(s *dgxa100.Server) {
		s.DeviceGetHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, missing }
	},
	"uuid": func(s *dgxa100.Server) {
		s.DeviceGetHandleByUUIDFunc = func(string) (nvml.Device, nvml.Return) { return nil, missing }
	},
	"name": func(s *dgxa100.Server) {
		s.Devices[3].(*dgxa100.Device).GetUUIDFunc = func() (string, nvml.Return) { return "GPU-", missing }
	},
	"count": func(s *dgxa100.Server) {
		s.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, missing }
	},
}

func TestAskAffinity(t *testing.T) {
	for _, c := range []struct {
		name  string
		masks masks
		cpus  string
	}{
		{"the socket", masks{socket: []uint{0xf0, 0, 1 << 7}}, "4-7,135"},
		{"a driver that knows no sockets", masks{socket: []uint{0}, socketRet: missing, nearest: []uint{0x3}}, "0-1"},
		{"a device that knows none", masks{socket: []uint{}, socketRet: nvml.ERROR_NOT_SUPPORTED, nearest: []uint{0x6}}, "1-2"},
		{"garbage with an error", masks{socket: []uint{0xff}, socketRet: nvml.ERROR_UNKNOWN, nearest: []uint{0x6}}, "1-2"},
		{"an empty socket", masks{socket: []uint{0, 0}, nearest: []uint{0x6}}, "1-2"},
		{"empty both", masks{socket: []uint{0}, nearest: []uint{0}}, ""},
		{"neither function", masks{socket: []uint{0}, socketRet: missing, nearest: []uint{}}, ""},
	} {
		server := dgx(c.masks)
		if s := ask(server, "", 200); s.String() != c.cpus {
			t.Errorf("%s: %s", c.name, s)
		}
		if n := len(server.ShutdownCalls()); n != 1 {
			t.Errorf("%s: shut down %d times", c.name, n)
		}
	}
}

func TestAskWhich(t *testing.T) {
	for _, c := range []struct {
		gpu     string
		without []string
		device  int // -1: none
	}{
		{"", nil, 0},
		{"7", nil, 7},
		{"8", nil, -1},
		{"GPU-c-4141", nil, 2},
		{"GPU-c", nil, 2},
		{"GPU-", nil, -1},
		{"MIG-GPU-d-4141/1/0", nil, 3},
		{"MIG-5", nil, 4},
		{"MIG-6", nil, -1},
		{"first", nil, -1},
		{"GPU-c-4141", []string{"uuid"}, 2},
		{"GPU-c-4141", []string{"uuid", "count"}, -1},
		{"GPU-c-4141", []string{"uuid", "index"}, -1},
		{"MIG-5", []string{"part"}, -1},
		{"0", []string{"index"}, -1},
		{"3", []string{"name"}, 3}, // near a device that does not tell its UUID
		{"GPU-d", []string{"name"}, -1},
		{"GPU-e", []string{"name"}, 4},
	} {
		server := dgx(masks{})
		for i, d := range server.Devices {
			d.(*dgxa100.Device).GetCpuAffinityWithinScopeFunc = func(int, nvml.AffinityScope) ([]uint, nvml.Return) {
				return []uint{1 << i}, nvml.SUCCESS
			}
		}
		byUUID, part := server.DeviceGetHandleByUUIDFunc, nvml.SUCCESS
		server.DeviceGetHandleByUUIDFunc = func(uuid string) (nvml.Device, nvml.Return) {
			if uuid != "MIG-5" {
				return byUUID(uuid)
			}
			return &mock.Device{GetDeviceHandleFromMigDeviceHandleFunc: func() (nvml.Device, nvml.Return) {
				return server.Devices[4], part
			}}, nvml.SUCCESS
		}
		for _, function := range c.without {
			if function == "part" {
				part = missing
			} else {
				without[function](server)
			}
		}
		var want CPUs
		if c.device >= 0 {
			want = CPUs{c.device}
		}
		if got := ask(server, c.gpu, 200); !slices.Equal(got, want) {
			t.Errorf("%q without %q: %s", c.gpu, c.without, got)
		}
	}
}

// After a failed Init nothing is called: the mock has no other function.
func TestAskInitFails(t *testing.T) {
	for _, ret := range []nvml.Return{nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_GPU_IS_LOST} {
		lib := &mock.Interface{InitFunc: func() nvml.Return { return ret }}
		if s := ask(lib, "", 200); s != nil {
			t.Errorf("%d: %s", int32(ret), s)
		}
	}
}

func TestUsage(t *testing.T) {
	server := dgx(masks{})
	d := server.Devices[1].(*dgxa100.Device)
	d.MemoryInfo = nvml.Memory{Total: 100, Used: 30, Free: 70}
	busy := nvml.SUCCESS
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 25, Memory: 99}, busy }
	expect := func(gpu string, want GPUUse, known bool) {
		t.Helper()
		if u, ok := usage(server, gpu); u != want || ok != known {
			t.Errorf("%q: %+v, %v", gpu, u, ok)
		}
	}
	expect("GPU-b-4141", GPUUse{30, 100, 0.25, false}, true)
	d.MigMode, busy = nvml.DEVICE_MIG_ENABLE, nvml.ERROR_NOT_SUPPORTED
	expect("1", GPUUse{30, 100, -1, true}, true)
	expect("8", GPUUse{}, false)
	d.GetMigModeFunc = func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_ENABLE, 0, missing }
	expect("1", GPUUse{30, 100, -1, false}, true)
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 7}, missing }
	expect("1", GPUUse{}, false)
	if n, m := len(server.InitCalls()), len(server.ShutdownCalls()); n != 5 || m != n {
		t.Errorf("opened %d times, closed %d times", n, m)
	}
}
