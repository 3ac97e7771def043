package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"strings"
	"testing"
)

var red = color.RGBA{200, 0, 0, 255}

func drawing(t *testing.T, f Format, what func(Canvas)) []byte {
	t.Helper()
	c, err := New(f, 100, 60)
	if err != nil {
		t.Fatal(err)
	}
	what(c)
	var out bytes.Buffer
	if err := c.Encode(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// shapes are drawings and the points that must be red, or white, after each.
var shapes = []struct {
	name       string
	draw       func(Canvas)
	red, white [2]int
}{
	{"line", func(c Canvas) { c.Line([]Spot{{10, 10}, {50, 10}, {50, 40}}, red, 4, false) }, [2]int{50, 30}, [2]int{30, 30}},
	{"dashes", func(c Canvas) { c.Line([]Spot{{0, 20}, {100, 20}}, red, 4, true) }, [2]int{3, 20}, [2]int{9, 20}},
	{"disc", func(c Canvas) { c.Disc(Spot{30, 30}, 8, red) }, [2]int{35, 30}, [2]int{37, 37}},
	{"box", func(c Canvas) { c.Box(Spot{60, 50}, Spot{20, 10}, red) }, [2]int{59, 11}, [2]int{61, 11}},
	{"out of the picture", func(c Canvas) { c.Box(Spot{90, 50}, Spot{900, 700}, red) }, [2]int{99, 59}, [2]int{80, 59}},
}

func TestShapesInPNG(t *testing.T) {
	for _, s := range shapes {
		img, err := png.Decode(bytes.NewReader(drawing(t, PNG, s.draw)))
		if err != nil {
			t.Fatal(err)
		}
		is := func(at [2]int, want color.RGBA) {
			if got := color.RGBAModel.Convert(img.At(at[0], at[1])); got != want {
				t.Errorf("%s: %v at %v, not %v", s.name, got, at, want)
			}
		}
		is(s.red, red)
		is(s.white, color.RGBA{255, 255, 255, 255})
	}
}

func TestTextInPNG(t *testing.T) {
	left := func(anchor float64) int {
		img, err := png.Decode(bytes.NewReader(drawing(t, PNG, func(c Canvas) { c.Text(Spot{50, 30}, anchor, red, "word") })))
		if err != nil {
			t.Fatal(err)
		}
		for x := range 100 {
			for y := range 60 {
				if r, g, _, _ := img.At(x, y).RGBA(); r > g {
					return x
				}
			}
		}
		return -1
	}
	start, middle, end := left(0), left(0.5), left(1)
	if start < 50 || middle >= start || end >= middle || end < 0 {
		t.Errorf("words begin at %d, %d and %d", start, middle, end)
	}
}

func TestSVG(t *testing.T) {
	text := drawing(t, SVG, func(c Canvas) {
		for _, s := range shapes {
			s.draw(c)
		}
		c.Text(Spot{1, 2}, 1, red, "a < b & c")
	})
	elements := map[string]int{}
	words := ""
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			elements[e.Name.Local]++
		case xml.CharData:
			words += string(e)
		}
	}
	if elements["svg"] != 1 || elements["polyline"] != 2 || elements["circle"] != 1 || elements["rect"] != 3 || elements["text"] != 1 {
		t.Errorf("elements %v", elements)
	}
	if !strings.Contains(words, "a < b & c") || !strings.Contains(string(text), "#c80000") {
		t.Errorf("words or colours are missing:\n%s", text)
	}
}

func TestFormats(t *testing.T) {
	for path, want := range map[string]Format{"a.svg": SVG, "b/c.PNG": PNG} {
		if f, err := FormatOf(path); f != want || err != nil {
			t.Errorf("%s: %v, %v", path, f, err)
		}
	}
	for _, path := range []string{"a.gif", "svg", ""} {
		if _, err := FormatOf(path); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, err := New("gif", 10, 10); !errors.Is(err, ErrFormat) {
		t.Errorf("gif: %v", err)
	}
}

func TestStep(t *testing.T) {
	for v, want := range map[float64]float64{1: 1, 1.1: 2, 3: 5, 5: 5, 7: 10, 0.03: 0.05, 420: 500} {
		if got := Step(v); got < want*0.999 || got > want*1.001 {
			t.Errorf("Step(%g) is %g, not %g", v, got, want)
		}
	}
}
