package decode

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestOrdinary(t *testing.T) {
	for name, want := range map[string]bool{
		"baseline": true, "gray": true, "gray-2x2": true, "restarts": true, "plain-1x1": true, "ycc-2x1-7x9": true,
		"rgb": false, "cmyk": false, "cmyk-plain": false, "progressive": false, "separate-scans": false,
		"../arithmetic": false, "../arithmetic-progressive": false,
	} {
		data, err := os.ReadFile(filepath.Join("testdata/samples", name+".jpg"))
		if err != nil {
			t.Fatal(err)
		}
		if Ordinary(data) != want {
			t.Errorf("%s: %t", name, !want)
		}
		if Ordinary(data[:len(data)-2]) || Ordinary(data[:len(data)/3]) || Ordinary(data[:1]) {
			t.Errorf("%s: without its end", name)
		}
		marked := bytes.Replace(data, []byte{0xff, 0xdb}, []byte("\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00\xff\xdb"), 1)
		if gray := bytes.HasPrefix([]byte(name), []byte("gray")); Ordinary(marked) != (want && gray) {
			t.Errorf("%s, marked as RGB: %t", name, Ordinary(marked))
		}
	}
	if Ordinary([]byte("\x89PNG\r\n\x1a\n")) {
		t.Error("PNG")
	}
}
