package layout

import (
	"encoding/hex"
	"encoding/json"
)

// A Place says where in a GPU's memory a batch's tensor is.
type Place struct {
	Device string   // the GPU's UUID, as GPU-8-4-4-4-12 hexadecimal digits
	Handle [64]byte // of the allocation, for cuIpcOpenMemHandle
	Offset int64    // of the tensor in it, in bytes
}

// AppendCUDA appends the whole CUDA form of a batch to dst: a JSON document, padded with spaces.
func AppendCUDA(dst []byte, s Spec, valid int, p Place) ([]byte, error) {
	text, err := json.Marshal(struct {
		Device string `json:"device"`
		Handle string `json:"handle"`
		Offset int64  `json:"offset"`
		Bytes  int64  `json:"bytes"`
		Shape  [4]int `json:"shape"`
		DType  string `json:"dtype"`
		Layout string `json:"layout"`
		Valid  int    `json:"valid"`
	}{p.Device, hex.EncodeToString(p.Handle[:]), p.Offset, s.Bytes(), s.Shape(), s.DType.String(), s.Order.String(), valid})
	if err != nil {
		return nil, err
	}
	text, err = Pad(text, Page)
	return append(dst, text...), err
}
