package layout

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

var noArrays Names

func TestNames(t *testing.T) {
	for i, want := range map[int]string{
		0: "batch-00000", 17: "batch-00017", 9999: "batch-09999", 10000: "batch-10000",
		99999: "batch-99999", 100000: "batch-100000", math.MaxInt: "batch-" + strconv.Itoa(math.MaxInt),
	} {
		if got := BatchName(i); got != want {
			t.Errorf("BatchName(%d) = %q, want %q", i, got, want)
		}
		for _, f := range Forms() {
			name := string(noArrays.AppendName(nil, i, f))
			if !strings.HasPrefix(name, BatchName(i)+".") {
				t.Errorf("AppendName(%d, %v) = %q", i, f, name)
			}
			batch, form, ok := noArrays.ParseBatchName(name)
			if !ok || batch != i || form != f {
				t.Errorf("ParseBatchName(%q) = %d, %v, %v", name, batch, form, ok)
			}
		}
	}
}

func TestParseBatchNameRefuses(t *testing.T) {
	for _, name := range []string{
		"", "batch-", "batch-.npy", "batch-00000", "batch-00000.", "batch-00000.NPY", "batch-00000.npz",
		"batch-0000.npy", "batch-000000.npy", "batch-012345.npy", "batch-+0001.npy", "batch--0001.npy",
		"batch-0000a.npy", "batch-00001.npy ", " batch-00001.npy", "Batch-00001.npy", "batch_00001.npy",
		"batch-00001..npy", "batch-00001.labels", "batch-99999999999999999999.npy",
		"batch-9223372036854775808.json", "batch-٠٠٠٠٠.npy", "batch-00001.unknown",
	} {
		if batch, form, ok := noArrays.ParseBatchName(name); ok {
			t.Errorf("ParseBatchName(%q) = %d, %v", name, batch, form)
		}
	}
}

// A name that parses is spelled exactly as by AppendName: one name per file.
func FuzzParseBatchName(f *testing.F) {
	for _, s := range []string{"batch-00017.nhwc", "batch-123456.labels.npy", "batch-000001.json", "batch-9999999999999999999.png"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		batch, form, ok := noArrays.ParseBatchName(name)
		if !ok {
			if batch != 0 || form != 0 {
				t.Errorf("refused name %q gave %d, %v", name, batch, form)
			}
			return
		}
		if got := string(noArrays.AppendName(nil, batch, form)); got != name || batch < 0 {
			t.Errorf("%q parses as %d, %v, which is spelled %q", name, batch, form, got)
		}
	})
}

func TestForms(t *testing.T) {
	large := map[Form]bool{NHWCForm: true, NCHWForm: true, NPY: true, SafeTensors: true, PNG: true}
	if len(Forms()) != 10 {
		t.Errorf("%d forms", len(Forms()))
	}
	for _, f := range Forms() {
		if g, ok := noArrays.Parse(f.Ext()); !ok || g != f {
			t.Errorf("ParseForm(%q) = %v, %v", f.Ext(), g, ok)
		}
		if f.Large() != large[f] || f.Tensor() != (large[f] && f != PNG) {
			t.Errorf("%v: large %v, tensor %v", f, f.Large(), f.Tensor())
		}
		want := NCHW
		if f == NHWCForm {
			want = NHWC
		}
		if got := f.OrderOf(NCHW); got != want {
			t.Errorf("%v.OrderOf(nchw) = %v", f, got)
		}
		if got := f.OrderOf(NHWC); (got == NCHW) != (f == NCHWForm) {
			t.Errorf("%v.OrderOf(nhwc) = %v", f, got)
		}
	}
	for _, bad := range []string{"", "unknown", ".npy", "NHWC"} {
		if f, ok := noArrays.Parse(bad); ok {
			t.Errorf("ParseForm(%q) = %v", bad, f)
		}
	}
	if Form(200).Ext() != "unknown" || Form(200).Large() {
		t.Error("a form that does not exist has properties")
	}
}

func TestDTypesAndOrders(t *testing.T) {
	sizes := map[string]int{"uint8": 1, "float16": 2, "bfloat16": 2, "float32": 4}
	for d := Uint8; d <= Float32; d++ {
		if d.Size() == 0 || d.Size() != sizes[d.String()] {
			t.Errorf("%v: size %d", d, d.Size())
		}
	}
	if DType(9).String() != "unknown" || DType(9).Size() != 0 {
		t.Error("a type that does not exist has properties")
	}
	if NHWC.String() != "nhwc" || NCHW.String() != "nchw" {
		t.Errorf("the orders are %v and %v", NHWC, NCHW)
	}
}
