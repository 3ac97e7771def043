package layout_test

import (
	"fmt"
	"log"

	"github.com/batchfs/batchfs/layout"
)

// The sizes of a batch's files follow from its shape alone.
func ExampleSize() {
	spec, err := layout.NewSpec(32, 224, 224, 3, layout.Float16, layout.NCHW)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(spec.Shape())
	names := layout.Names(nil) // the mount has no arrays
	for _, form := range []layout.Form{layout.NCHWForm, layout.NPY, layout.SafeTensors} {
		fmt.Printf("%s: %d bytes, the pixels at %d\n",
			names.AppendName(nil, 17, form), layout.Size(form, spec), layout.DataOffset(form, spec))
	}
	fmt.Printf("%s: %d bytes\n", names.AppendName(nil, 17, layout.Labels), layout.Size(layout.Labels, spec))
	// Output:
	// [32 3 224 224]
	// batch-00017.nchw: 9633792 bytes, the pixels at 0
	// batch-00017.npy: 9637888 bytes, the pixels at 4096
	// batch-00017.safetensors: 9637888 bytes, the pixels at 4096
	// batch-00017.labels.npy: 384 bytes
}

// A name says which batch it is, and in which form.
func ExampleNames_ParseBatchName() {
	names := layout.Names(nil) // the mount has no arrays
	batch, form, ok := names.ParseBatchName("batch-00017.labels.npy")
	fmt.Println(batch, form.Ext(), ok)
	_, _, ok = names.ParseBatchName("batch-17.npy")
	fmt.Println(ok)
	// Output:
	// 17 labels.npy true
	// false
}

// A row of pixels becomes elements of the tensor: mirrored, normalized and in the slot's
// order of axes, in one pass.
func ExampleWriter() {
	spec, err := layout.NewSpec(1, 1, 2, 3, layout.Uint8, layout.NCHW)
	if err != nil {
		log.Fatal(err)
	}
	converter, err := layout.NewConverter(spec.DType, spec.C, layout.Normalization{})
	if err != nil {
		log.Fatal(err)
	}
	w := layout.NewWriter(converter, 0)
	defer w.Close()

	slot := make([]byte, spec.SampleBytes())
	w.Begin(slot, spec, 1, 2, true, 0)
	w.PutRow(0, []byte{1, 2, 3, 10, 20, 30}) // two RGB pixels
	w.End()
	fmt.Println(slot)
	// Output:
	// [10 1 20 2 30 3]
}
