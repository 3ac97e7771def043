package machine

import "testing"

func TestFirstOf(t *testing.T) {
	for list, want := range map[string]string{
		"0": "0", "2,0": "2", " 3 , 1": "3", "GPU-8932f937,1": "GPU-8932f937", "MIG-GPU-1/2/3": "MIG-GPU-1/2/3", "": "",
	} {
		if got, found := firstOf(list); !found || got != want {
			t.Errorf("%q: %q, not %q", list, got, want)
		}
	}
	for _, list := range []string{"-1", "-1,0", ",0", "NoDevFiles", "0x1", NoGPU, "void"} {
		if got, found := firstOf(list); found {
			t.Errorf("%q: %q", list, got)
		}
	}
}

func TestDeviceFor(t *testing.T) {
	for _, c := range []struct{ choice, devices, want string }{
		{"1", "", "1"}, {"1", "3,GPU-x", "GPU-x"}, {"0", "3,GPU-x", "3"}, {"2", "3,GPU-x", NoGPU}, {"0", NoGPU, NoGPU},
		{"1", " 3 , 4", "4"}, {"2", "3,-1,2", NoGPU}, {"1", "3,", NoGPU},
		{"GPU-y", "3", "GPU-y"}, {NoGPU, "3", NoGPU},
	} {
		if got := deviceFor(c.choice, c.devices); got != c.want {
			t.Errorf("%q among %q: %q", c.choice, c.devices, got)
		}
	}
}
