//go:build cgo

package decode

// #include <stdio.h>
// #include <jpeglib.h>
// #include "bfs_png.h"
// #define TEXT(x) #x
// #define TEXT_OF(x) TEXT(x)
// static const char *jpeg_version(void) { return TEXT_OF(LIBJPEG_TURBO_VERSION); }
import "C"

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

// Version names the decoders that produce a Decoder's pixels, in the versions loaded at run
// time, which may differ from those compiled against. libdeflate and zlib are left out because
// their output is fully determined by their input.
func Version() string { return version() }

var version = sync.OnceValue(func() string {
	maps, _ := os.ReadFile("/proc/self/maps")
	jpeg := cmp.Or(jpegVersion(string(maps)), C.GoString(C.jpeg_version()))
	webp := int(C.bfs_webp_version())
	return fmt.Sprintf("libjpeg-turbo %s, libpng %s, libwebp %d.%d.%d",
		jpeg, C.GoString(C.bfs_png_version()), webp>>16, webp>>8&255, webp&255)
})

// libjpeg has no call that returns the version of the loaded library; its headers give the one
// compiled against. libjpeg-turbo contains it as text, "libjpeg-turbo version 2.1.5 (build
// 20230203)".
var (
	jpegLibrary = regexp.MustCompile(`/\S*/libjpeg\.so\S*`)
	jpegText    = regexp.MustCompile(`libjpeg-turbo version ([0-9.]+)`)
)

// jpegVersion is the version of the library in the mappings of a process; "" if the program itself
// contains it, so that the headers' version counts.
func jpegVersion(maps string) string {
	path := jpegLibrary.FindString(maps)
	if path == "" {
		return ""
	}
	library, _ := os.ReadFile(path)
	if found := jpegText.FindSubmatch(library); found != nil {
		return string(found[1])
	}
	return "of " + filepath.Base(path) // its numbers at least identify the interface
}
