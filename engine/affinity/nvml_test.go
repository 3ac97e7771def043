//go:build linux && cgo && (amd64 || arm64)

package affinity

import (
	"errors"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
)

// masks is what the devices answer. A question without an answer has no function in the mock,
// and panics: so each case shows which questions are asked.
type masks struct {
	socket, nearest []uint
	socketRet       nvml.Return
}

// dgx is a machine of 8 devices whose driver lacks some functions.
func dgx(m masks, missing ...string) *dgxa100.Server {
	server := dgxa100.New()
	server.LookupSymbolFunc = func(symbol string) error {
		for _, name := range missing {
			if strings.HasPrefix(symbol, name) {
				return errors.New("not found")
			}
		}
		return nil
	}
	for i, d := range server.Devices {
		d := d.(*dgxa100.Device)
		d.UUID = "GPU-" + string(rune('a'+i)) + "-4141"
		d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{Domain: uint32(i), Bus: 0xb3, Device: 1}, nvml.SUCCESS
		}
		if m.socket != nil {
			d.GetCpuAffinityWithinScopeFunc = func(n int, scope nvml.AffinityScope) ([]uint, nvml.Return) {
				if n != 200 || scope != nvml.AFFINITY_SCOPE_SOCKET {
					panic("asked for something else")
				}
				return m.socket, m.socketRet
			}
		}
		if m.nearest != nil {
			d.GetCpuAffinityFunc = func(int) ([]uint, nvml.Return) { return m.nearest, nvml.SUCCESS }
		}
	}
	return server
}

func TestAskAffinity(t *testing.T) {
	const scope = "nvmlDeviceGetCpuAffinityWithinScope"
	for _, c := range []struct {
		name    string
		masks   masks
		missing []string
		cpus    string
	}{
		{"the socket", masks{socket: []uint{0xf0, 0, 1 << 7}}, nil, "4-7,135"},
		{"a driver that knows no sockets", masks{nearest: []uint{0x3}}, []string{scope}, "0-1"},
		{"a device that knows none", masks{socket: []uint{}, socketRet: nvml.ERROR_NOT_SUPPORTED, nearest: []uint{0x6}}, nil, "1-2"},
		{"garbage with an error", masks{socket: []uint{0xff}, socketRet: nvml.ERROR_UNKNOWN, nearest: []uint{0x6}}, nil, "1-2"},
		{"an empty socket", masks{socket: []uint{0, 0}, nearest: []uint{0x6}}, nil, "1-2"},
		{"empty both", masks{socket: []uint{0}, nearest: []uint{0}}, nil, ""},
		{"neither function", masks{}, []string{"nvmlDeviceGetCpuAffinity"}, ""},
	} {
		server := dgx(c.masks, c.missing...)
		g, err := ask(server, "", 200)
		if err != nil || g.CPUs.String() != c.cpus || g.PCI != "0000:b3:01.0" || g.UUID != "GPU-a-4141" || g.Name == "" {
			t.Errorf("%s: %+v, %v", c.name, g, err)
		}
		if n := len(server.ShutdownCalls()); n != 1 {
			t.Errorf("%s: shut down %d times", c.name, n)
		}
	}
}

func TestAskWhich(t *testing.T) {
	for _, c := range []struct {
		gpu     string
		missing []string
		uuid    string
		err     string
	}{
		{"", nil, "GPU-a-4141", ""},
		{"7", nil, "GPU-h-4141", ""},
		{"8", nil, "", "GPU 8: no such device"},
		{"GPU-c-4141", nil, "GPU-c-4141", ""},
		{"GPU-c", nil, "GPU-c-4141", ""},
		{"GPU-", nil, "", `no GPU "GPU-" among 8`},
		{"MIG-GPU-d-4141/1/0", nil, "GPU-d-4141", ""},
		{"MIG-5", nil, "GPU-e-4141", ""},
		{"MIG-6", nil, "", `no GPU "MIG-6" among 8`},
		{"first", nil, "", `no GPU "first" among 8`},
		{"GPU-c-4141", []string{"nvmlDeviceGetHandleByUUID"}, "GPU-c-4141", ""},
		{"GPU-c-4141", []string{"nvmlDeviceGetHandleByUUID", "nvmlDeviceGetCount"}, "", "no GPU"},
		{"MIG-5", []string{"nvmlDeviceGetDeviceHandleFromMig"}, "", `no GPU "MIG-5" among 8`},
		{"0", []string{"nvmlDeviceGetHandleByIndex"}, "", "GPU 0: the NVIDIA driver is too old"},
		{"0", []string{"nvmlDeviceGetHandleByIndex_v2"}, "GPU-a-4141", ""},
	} {
		server := dgx(masks{socket: []uint{1}}, c.missing...)
		byUUID := server.DeviceGetHandleByUUIDFunc
		server.DeviceGetHandleByUUIDFunc = func(uuid string) (nvml.Device, nvml.Return) {
			if uuid != "MIG-5" {
				return byUUID(uuid)
			}
			part := &mock.Device{GetDeviceHandleFromMigDeviceHandleFunc: func() (nvml.Device, nvml.Return) {
				return server.Devices[4], nvml.SUCCESS
			}}
			return part, nvml.SUCCESS
		}
		g, err := ask(server, c.gpu, 200)
		switch {
		case c.err != "":
			if g != nil || err == nil || err.Error() != c.err || errors.Is(err, errNoNVML) {
				t.Errorf("%q without %q: %+v, %v", c.gpu, c.missing, g, err)
			}
		case err != nil || g.UUID != c.uuid:
			t.Errorf("%q without %q: %+v, %v", c.gpu, c.missing, g, err)
		}
	}
}

// After a failed Init nothing is called: the mock has no other function.
func TestAskInitFails(t *testing.T) {
	for ret, text := range map[nvml.Return]string{
		nvml.ERROR_LIBRARY_NOT_FOUND: "no NVML: libnvidia-ml.so.1 not found",
		nvml.ERROR_DRIVER_NOT_LOADED: "no NVML: the NVIDIA driver is not loaded",
		nvml.ERROR_GPU_IS_LOST:       "no NVML: NVML error 15",
	} {
		lib := &mock.Interface{InitFunc: func() nvml.Return { return ret }}
		if g, err := ask(lib, "", 200); g != nil || !errors.Is(err, errNoNVML) || err.Error() != text {
			t.Errorf("%d: %+v, %v", int32(ret), g, err)
		}
	}
}

// A driver that has no function except Init is asked nothing, not even to shut down.
func TestAskAllMissing(t *testing.T) {
	server := &mock.Interface{
		InitFunc: func() nvml.Return { return nvml.SUCCESS },
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return errors.New("not found") }}
		},
	}
	for _, gpu := range []string{"", "GPU-c-4141"} {
		if g, err := ask(server, gpu, 200); g != nil || err == nil {
			t.Errorf("%q: %+v, %v", gpu, g, err)
		}
	}
}

// Workers can be placed near a device that reveals nothing about itself.
func TestAskSilentDevice(t *testing.T) {
	server := dgx(masks{socket: []uint{2}}, "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetPciInfo")
	g, err := ask(server, "3", 200)
	if err != nil || g.Name+g.UUID+g.PCI != "" || g.CPUs.String() != "1" {
		t.Errorf("%+v, %v", g, err)
	}
}

// From NVML's masks to a worker's CPUs.
func TestAskAndAssign(t *testing.T) {
	for _, c := range []struct {
		name   string
		masks  masks
		near   string
		source Source
		note   string
	}{
		{"recommended", masks{socket: []uint{0xf0}}, "4-5", NVML, ""},
		{"recommended, but not allowed", masks{socket: []uint{0xc0}}, "2-5", ProcessNode, ""},
		{"nothing recommended", masks{socket: []uint{0}, nearest: []uint{0}}, "2-5", ProcessNode, "NVML recommends no CPUs"},
	} {
		server := dgx(c.masks)
		m := look(files(sockets), must(parseSet("2-5")), "", func(gpu string, cpus int) (*GPU, error) {
			return ask(server, gpu, 200)
		})
		sets, err := Assign([]int{2}, 2, m)
		if err != nil || sets[0].String() != "2" || sets[1].String() != c.near || m.Note != c.note {
			t.Errorf("%s: %v, %q, %v", c.name, sets, m.Note, err)
		}
		if _, source := m.Near(); source != c.source {
			t.Errorf("%s: by %s", c.name, source)
		}
	}
}
