package target

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestPolygonsLikeCOCO: polygons have the pixels that COCO's own tools give them; see
// testdata/polygons.py.
func TestPolygonsLikeCOCO(t *testing.T) {
	var cases []struct {
		Height, Width int
		Polygon       []float64
		Runs          []uint32
	}
	text, err := os.ReadFile("testdata/polygons.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil || len(cases) < 100 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	for i, c := range cases {
		got, want := make([]byte, c.Height*c.Width), make([]byte, c.Height*c.Width)
		err := Draw(got, c.Height, c.Width, []Shape{{Class: 7, Polygons: [][]float64{c.Polygon}}})
		if err2 := Draw(want, c.Height, c.Width, []Shape{{Class: 7, Runs: c.Runs}}); err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("polygon %d has other pixels", i)
		}
	}
}

// TestDrawCovers: a later shape covers an earlier one, and crowds have NoClass.
func TestDrawCovers(t *testing.T) {
	mask := make([]byte, 2*3)
	all := []uint32{0, 6}
	testkit.Must(t, Draw(mask, 2, 3, []Shape{{Class: 4, Runs: all}, {Class: 5, Runs: []uint32{1, 2, 3}}, {Class: -1, Runs: []uint32{4, 1, 1}}}))
	// Runs go down the columns.
	if want := []byte{4, 5, NoClass, 5, 4, 4}; !bytes.Equal(mask, want) {
		t.Errorf("%v, not %v", mask, want)
	}
}

// TestHostilePolygon: a polygon that would take seconds to draw is refused, and parts far outside
// are not followed.
func TestHostilePolygon(t *testing.T) {
	mask := make([]byte, 100*100)
	if err := Draw(mask, 100, 100, []Shape{{Class: 1, Polygons: [][]float64{{-1e30, -1e30, 1e30, -1e30, 1e30, 1e30, -1e30, 1e30}}}}); err != nil || mask[5050] != 1 {
		t.Errorf("a square around everything: %v, %d", err, mask[5050])
	}
	zigzag := make([]float64, 1<<20)
	for i := range zigzag {
		zigzag[i] = float64(i%4/2) * 1e6
	}
	if err := Draw(mask, 100, 100, []Shape{{Class: 1, Polygons: [][]float64{zigzag}}}); err == nil {
		t.Error("half a million long edges were drawn")
	}
}
