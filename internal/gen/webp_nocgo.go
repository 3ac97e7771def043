//go:build !cgo

package gen

// webpFormats is empty, since no library in Go that writes WebP is mature.
var webpFormats []format
