package layout

// Form is one of a batch's files.
type Form uint8

const (
	NHWCForm    Form = iota // the tensor's bytes
	NCHWForm                // the same, channels in planes
	NPY                     // NumPy format 1.0, data at byte Page
	SafeTensors             // images with labels, ids, sizes and valid in one file
	Valid                   // .npy, bool [N]
	Labels                  // .npy, int64 [N]
	IDs                     // .npy, int64 [N]
	Sizes                   // .npy, int32 [N,2]
	JSON                    // a description of the batch
	PNG                     // a contact sheet
	CUDA                    // where the tensor is in a GPU's memory
	MasksNPY                // .npy, [N,H,W], data at byte Page
	MasksPNG                // a contact sheet of the masks
	Boxes                   // .npy, float32 [M,4], or [N,K,4] if their number is fixed
	BoxLabels               // .npy, int64 [M] or [N,K]
	BoxOffsets              // .npy, int64 [N+1]
	BoxIDs                  // .npy, int64 [M] or [N,K]
	BoxFlags                // .npy, uint8 [M] or [N,K]
	BoxVisible              // .npy, like Boxes
	BoxCounts               // .npy, int32 [N], if their number is fixed
	Keypoints               // .npy, float32 [M,P,3] or [N,K,P,3]
	Text                    // one JSON object per line
	FirstArray              // from here on, two forms per array: its elements, and where each slot's begin
)

// MaxArrays is how many arrays a mount may have: see [ArrayForm] and [ArrayOffsets].
const MaxArrays = 16

// NumForms is how many forms there are.
const NumForms = FirstArray + 2*MaxArrays

// ArrayForm is the form of array i: .npy, all of its elements, data at byte Page.
func ArrayForm(i int) Form { return FirstArray + Form(2*i) }

// ArrayOffsets is the form with the first row of each slot in array i: .npy, int64 [N+1].
func ArrayOffsets(i int) Form { return ArrayForm(i) + 1 }

// Array is the number of the array whose elements are in a form; false if the form has none.
func (f Form) Array() (i int, ok bool) {
	return int(f-FirstArray) / 2, f.IsArray() && (f-FirstArray)%2 == 0
}

// IsArray reports whether f is the [ArrayForm] or the [ArrayOffsets] of an array.
func (f Form) IsArray() bool { return f >= FirstArray && f < NumForms }

var forms = [FirstArray]string{
	NHWCForm:    "nhwc",
	NCHWForm:    "nchw",
	NPY:         "npy",
	SafeTensors: "safetensors",
	Valid:       "valid.npy",
	Labels:      "labels.npy",
	IDs:         "ids.npy",
	Sizes:       "sizes.npy",
	JSON:        "json",
	PNG:         "png",
	CUDA:        "cuda",
	MasksNPY:    "masks.npy",
	MasksPNG:    "masks.png",
	Boxes:       "boxes.npy",
	BoxLabels:   "boxes.labels.npy",
	BoxOffsets:  "boxes.offsets.npy",
	BoxIDs:      "boxes.ids.npy",
	BoxFlags:    "boxes.flags.npy",
	BoxVisible:  "boxes.visible.npy",
	BoxCounts:   "boxes.count.npy",
	Keypoints:   "keypoints.npy",
	Text:        "text.jsonl",
}

// Forms returns the forms that every mount has, in the order of the documentation: all but CUDA and
// targets.
func Forms() []Form {
	all := make([]Form, CUDA)
	for i := range all {
		all[i] = Form(i)
	}
	return all
}

// Ext is the form's extension, without the leading dot. For forms of arrays see [Names.Ext].
func (f Form) Ext() string { return Names(nil).Ext(f) }

// String is Ext.
func (f Form) String() string { return f.Ext() }

// Tensor reports whether the form is one of the four whose bytes are the tensor's.
func (f Form) Tensor() bool { return f <= SafeTensors }

// Large reports whether the form needs the batch's pixels, and so lives in batch memory or in a
// GPU's: the tensor forms, the contact sheet and CUDA.
func (f Form) Large() bool {
	_, array := f.Array()
	return f.Tensor() || f == PNG || f == CUDA || f == MasksNPY || f == MasksPNG || array
}

// OrderOf returns the order of the form's tensor; def is the mount's own order.
func (f Form) OrderOf(def Order) Order {
	switch f {
	case NHWCForm:
		return NHWC
	case NCHWForm:
		return NCHW
	}
	return def
}
