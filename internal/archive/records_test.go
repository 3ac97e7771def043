package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// message is a field of a protocol buffer with bytes.
func message(number int, parts ...string) string {
	body := strings.Join(parts, "")
	b := binary.AppendUvarint([]byte{byte(number<<3 | 2)}, uint64(len(body)))
	return string(b) + body
}

func featureOf(name string, value string) string {
	return message(1, message(1, name), message(2, value))
}

func bytesOf(values ...string) string {
	all := ""
	for _, v := range values {
		all += message(1, v)
	}
	return message(1, all)
}

func ints(packed string) string { return message(3, message(1, packed)) }

// recordOf is a record with an Example of features.
func recordOf(features ...string) []byte {
	data := message(1, features...)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, masked(b))
	return append(append(b, data...), 0, 0, 0, 0)
}

func TestRecords(t *testing.T) {
	image := featureOf("image", bytesOf("pixels"))
	wrong := recordOf(image)
	wrong[8]++
	for what, c := range map[string]struct {
		archive []byte
		want    string // the samples, or a part of the error
	}{
		"a number":            {recordOf(image, featureOf("label", ints("\x07"))), "pixels 7 "},
		"a single number":     {recordOf(image, featureOf("label", message(3, "\x08\x07"))), "pixels 7 "},
		"a name":              {recordOf(featureOf("label", bytesOf("cat")), image), "pixels -1 cat"},
		"nothing in a label":  {recordOf(image, featureOf("label", ints(""))), "pixels -1 "},
		"other fields":        {recordOf(image, "\x09eightbit", "\x0dfour", "\x10\x01"), "pixels -1 "},
		"two labels":          {recordOf(image, featureOf("label", ints("\x07\x08"))), "more than one label"},
		"two images in one":   {slices.Concat(recordOf(featureOf("image", bytesOf("a", "b"))), recordOf(image)), "problem,pixels -1 "},
		"no images":           {recordOf(featureOf("image", ints("\x07"))), `the first has ["image"]`},
		"a wrong checksum":    {wrong, "the checksum of its length"},
		"half a record":       {recordOf(image)[:20], "record 0, at 0, is cut short"},
		"no end":              {slices.Concat(recordOf(image), recordOf(image)[:5]), "record 1: unexpected EOF"},
		"a field ends behind": {recordOf("\x0a\x7fx"), "damaged"},
		"a number is cut":     {recordOf(image, "\x10\xff"), "damaged"},
		"eight bytes are cut": {recordOf(image, "\x09abc"), "damaged"},
		"a group":             {recordOf(image, "\x0b"), "damaged"},
		"a long label":        {recordOf(image, featureOf("label", bytesOf(strings.Repeat("x", maxClass+1)))), "longer than 1024"},
	} {
		got, err := scan("a.tfrecord", c.archive, Options{})
		if err != nil {
			if !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		var all []string
		for i, s := range got.Samples {
			if got.Problems[i] != "" {
				all = append(all, "problem")
				continue
			}
			all = append(all, fmt.Sprintf("%s %d %s", sample(t, c.archive, s), s.Label, s.Class))
		}
		if text := strings.Join(all, ","); text != c.want {
			t.Errorf("%s: %s", what, text)
		}
	}
}

// shardOf is a shard of MDS.
func shardOf(columns string, samples ...string) []byte {
	n := len(samples)
	b := binary.LittleEndian.AppendUint32(nil, uint32(n))
	at := 4*(n+2) + len(columns)
	for _, s := range samples {
		b = binary.LittleEndian.AppendUint32(b, uint32(at))
		at += len(s)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(at))
	return append(append(b, columns...), strings.Join(samples, "")...)
}

func TestShards(t *testing.T) {
	const columns = `{"column_names":["image","label"],"column_encodings":["%s","%s"],"column_sizes":[null,%s]}`
	pil := "\x02\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00RGB"
	backwards := shardOf(fmt.Sprintf(columns, "png", "int8", "1"), "\x01\x00\x00\x00a\x01", "\x01\x00\x00\x00a\x01")
	binary.LittleEndian.PutUint32(backwards[8:], uint32(len(backwards)))
	for what, c := range map[string]struct {
		archive []byte
		want    string
	}{
		"signed":            {shardOf(fmt.Sprintf(columns, "png", "int8", "1"), "\x01\x00\x00\x00a\xff"), "a -1 "},
		"too negative":      {shardOf(fmt.Sprintf(columns, "png", "int8", "1"), "\x01\x00\x00\x00a\x80"), "label -128"},
		"unsigned":          {shardOf(fmt.Sprintf(columns, "png", "uint8", "1"), "\x01\x00\x00\x00a\xff"), "a 255 "},
		"digits":            {shardOf(fmt.Sprintf(columns, "png", "str_int", "null"), "\x01\x00\x00\x00\x02\x00\x00\x00a17"), "a 17 "},
		"a name of digits":  {shardOf(fmt.Sprintf(columns, "png", "str", "null"), "\x01\x00\x00\x00\x02\x00\x00\x00a17"), "a -1 17"},
		"a wrong size":      {shardOf(fmt.Sprintf(columns, "png", "int8", "2"), "\x01\x00\x00\x00a\xff\xff"), "sample 0: damaged"},
		"beyond the sample": {shardOf(fmt.Sprintf(columns, "png", "int8", "1"), "\x03\x00\x00\x00a\xff", "\x01\x00\x00\x00a\xff"), "sample 0: damaged"},
		"less than nothing": {shardOf(fmt.Sprintf(columns, "png", "int8", "-1"), "\x01\x00\x00\x00a\xff"), "sample 0: damaged"},
		"few encodings":     {shardOf(`{"column_names":["image","a"],"column_encodings":["png"],"column_sizes":[null,1]}`), "description"},
		"no description":    {shardOf(`{`), "description"},
		"backwards":         {backwards, "damaged"},
		"few pixels":        {shardOf(fmt.Sprintf(columns, "pil", "int8", "1"), "\x11\x00\x00\x00"+pil+"ab\x01"), "sample 0: damaged"},
		"grey pixels":       {shardOf(fmt.Sprintf(columns, "pil", "int8", "1"), "\x12\x00\x00\x00"+pil[:8]+"\x01\x00\x00\x00Labcdef\x01"[:10]+"\x01"), "problem"},
	} {
		got, err := scan("a.mds", c.archive, Options{})
		text := "problem"
		if err != nil {
			if text = c.want; !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), c.want) {
				text = err.Error()
			}
		} else if s := got.Samples[0]; got.Problems[0] == "" {
			text = fmt.Sprintf("%s %d %s", sample(t, c.archive, s), s.Label, s.Class)
		}
		if text != c.want {
			t.Errorf("%s: %s", what, text)
		}
	}
}
