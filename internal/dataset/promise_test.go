package dataset

import (
	"os"
	"strings"
	"testing"
)

// sized is the expected state of a sample whose size a manifest gives.
type sized struct {
	Height, Width             int // upright
	StoredHeight, StoredWidth int
	Format, Problem           string
}

func sizedOf(d *Dataset) []sized {
	var all []sized
	for i := range d.Len() {
		h, w := d.Size(i, false)
		sh, sw := d.Size(i, true)
		all = append(all, sized{h, w, sh, sw, d.Format(i), d.Problem(i)})
	}
	return all
}

// TestManifestGivesSizes: if a manifest gives sizes but no format, each size is compared with the
// file. A sample of another size is bad, and reports the promised size.
func TestManifestGivesSizes(t *testing.T) {
	p := newPlace(t)
	p.images("a.jpg")
	p.write("turned.jpg", image("png", 30, 40, 6))
	p.write("rubbish.jpg", "rubbish")
	p.write("m.csv", `path,height,width
a.jpg,10,20
a.jpg,20,10
a.jpg,10,
a.jpg,11,
a.jpg,,20
a.jpg,,21
a.jpg,,
turned.jpg,40,30
turned.jpg,30,40
rubbish.jpg,5,6
rubbish.jpg,5,
gone.jpg,7,8
`)
	p.settle()
	fine := sized{10, 20, 10, 20, "jpeg", ""}
	want := []sized{
		fine,
		{20, 10, 20, 10, "", "is 10x20, but the manifest says 20x10"},
		fine,
		{0, 0, 0, 0, "", "is 10x20, but the manifest says 11x?"},
		fine,
		{0, 0, 0, 0, "", "is 10x20, but the manifest says ?x21"},
		fine,
		{40, 30, 30, 40, "png", ""},
		{30, 40, 30, 40, "", "is 40x30, but the manifest says 30x40"},
		{5, 6, 5, 6, "", "no image"},
		{0, 0, 0, 0, "", "no image"},
		{7, 8, 7, 8, "", "no such file or directory"},
	}
	for _, round := range []string{"scanned", "from the index"} {
		p.probes()
		d := p.open("m.csv")
		equal(t, want, sizedOf(d), "%s", round)
		if d.Report.Unreadable != 7 || (p.probes() > 0) != (round == "scanned") {
			t.Errorf("%s: %+v", round, d.Report)
		}
	}
}

// TestManifestChangesItsMind: if a manifest's sizes change, a file is probed again only if the
// change matters.
func TestManifestChangesItsMind(t *testing.T) {
	p := newPlace(t)
	p.images("a.jpg", "b.jpg")
	for _, c := range []struct {
		manifest string
		problems []string
		probes   int
	}{
		{"path,height,width\na.jpg,10,20\nb.jpg,10,20\n", []string{"", ""}, 2},
		{"path,height,width\na.jpg,10,20\nb.jpg,30,20\n", []string{"", "says 30x20"}, 1},
		{"path,height,width\na.jpg,10,20\nb.jpg,40,20\n", []string{"", "says 40x20"}, 1},
		{"path\na.jpg\nb.jpg\n", []string{"", ""}, 1},
		{"path,height\na.jpg,10\nb.jpg,10\n", []string{"", ""}, 0},
		{"path,height,width\na.jpg,10,20\nb.jpg,10,99\n", []string{"", "says 10x99"}, 1},
		{"path,height,width,format\na.jpg,10,20,\nb.jpg,10,99,jpeg\n", []string{"", ""}, 0}, // only a reader will notice
	} {
		p.write("m.csv", c.manifest)
		p.settle()
		d := p.open("m.csv", func(o *Options) { o.Rescan = true })
		for i, want := range c.problems {
			if got := d.Problem(i); (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%q: problem %q of sample %d, want %q", c.manifest, got, i, want)
			}
		}
		if n := p.probes(); n != c.probes {
			t.Errorf("%q: %d headers read, want %d", c.manifest, n, c.probes)
		}
	}
}

// TestPromiseOutlivesAFileThatIsNotThere: when the file appears, it is compared with what the
// manifest said before.
func TestPromiseOutlivesAFileThatIsNotThere(t *testing.T) {
	for said, want := range map[string]string{
		"10,20": "", "20,10": "is 10x20, but the manifest says 20x10", "10,": "", "11,": "is 10x20, but the manifest says 11x?",
	} {
		p := newPlace(t)
		p.write("m.csv", "path,height,width\nlater.jpg,"+said+"\n")
		p.settle()
		if d := p.open("m.csv"); d.Problem(0) == "" {
			t.Fatal("no problem")
		}
		p.images("later.jpg")
		if d := p.open("m.csv"); d.Problem(0) != want {
			t.Errorf("%s: problem %q", said, d.Problem(0))
		}
		os.Remove(p.path("later.jpg"))
	}
}
