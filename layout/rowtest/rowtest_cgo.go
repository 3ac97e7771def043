//go:build cgo

package rowtest

// #include <stdint.h>
// typedef void (*row_put)(void *ctx, int y, const uint8_t *row);
// static void call(void *put, void *ctx, int y, const uint8_t *row)
// {
//     ((row_put)put)(ctx, y, row);
// }
import "C"

import "unsafe"

func call(put, ctx unsafe.Pointer, y int, row []byte) {
	C.call(put, ctx, C.int(y), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(row))))
}
