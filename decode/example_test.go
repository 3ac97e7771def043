package decode_test

import (
	"fmt"
	"log"
	"os"

	"github.com/batchfs/batchfs/decode"
)

// The header says how large an image is, and the caller has the memory for its pixels.
func ExampleDecoder_Decode() {
	data, err := os.ReadFile("testdata/progressive.jpg")
	if err != nil {
		log.Fatal(err)
	}
	head, err := decode.ReadHeader(data, true)
	if err != nil {
		log.Fatal(err)
	}
	height, width := head.Size(false)
	gray := decode.Image{Pix: make([]byte, height*width), Stride: width, Height: height, Width: width}
	d := decode.NewDecoder(decode.Options{Color: decode.Gray})
	defer d.Close()
	fmt.Println(head.Format, height, width, d.Decode(gray, data, head))
	// Output: jpeg 47 61 <nil>
}
