package entries

import "testing"

// BenchmarkGet finds the entry points of files, and that some can have none.
func BenchmarkGet(b *testing.B) {
	const n = 1 << 18
	o := optionsOf(b.TempDir(), n)
	made(b, o, to(n)...)
	s := open(b, o)
	defer s.Close()
	var files [2][]File // without and with entry points

	for i := range n {
		k := min(1, len(pointsOf(i).Bytes))
		files[k] = append(files[k], fileOf(i))
	}
	for k, name := range []string{"none", "some"} {
		b.Run(name, func(b *testing.B) {
			var buf Buffer
			for i := range b.N {
				at := i * 7919 % len(files[k])
				if _, known := s.Get(files[k][at], &buf); !known {
					b.Fatal("not known")
				}
			}
		})
	}
}
