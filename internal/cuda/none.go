//go:build !(cuda && linux && cgo && (amd64 || arm64))

package cuda

// Open returns ErrNotBuilt. The code below is never reached; it exists so that callers compile.
func Open() (*Driver, error) { return nil, ErrNotBuilt }

type (
	Thread   struct{}
	Stream   struct{}
	Module   struct{}
	Function struct{}

	Import struct{ At Pointer }

	JPEGDecoder struct {
		Backend string
		Most    int
	}
)

// NVJPEGVersion returns ErrNotBuilt.
func NVJPEGVersion() (string, error) { return "", ErrNotBuilt }

func (*Driver) Devices() ([]Device, error)                             { return nil, ErrNotBuilt }
func (Device) Thread(func(*Thread) error) error                        { return ErrNotBuilt }
func (*Thread) Alloc(int64) (Pointer, error)                           { return 0, ErrNotBuilt }
func (*Thread) Free(Pointer) error                                     { return ErrNotBuilt }
func (*Thread) MemoryInfo() (free, total int64, err error)             { return 0, 0, ErrNotBuilt }
func (*Thread) Register([]byte) error                                  { return ErrNotBuilt }
func (*Thread) Unregister([]byte) error                                { return ErrNotBuilt }
func (*Thread) AllocHost(int) ([]byte, error)                          { return nil, ErrNotBuilt }
func (*Thread) FreeHost([]byte) error                                  { return ErrNotBuilt }
func (*Thread) Export(Pointer) (IPCHandle, error)                      { return IPCHandle{}, ErrNotBuilt }
func (*Thread) OpenIPC(IPCHandle) (*Import, error)                     { return nil, ErrNotBuilt }
func (*Import) Close() error                                           { return ErrNotBuilt }
func (*Thread) NewStream() (*Stream, error)                            { return nil, ErrNotBuilt }
func (*Thread) Load(string) (*Module, error)                           { return nil, ErrNotBuilt }
func (*Stream) Close() error                                           { return ErrNotBuilt }
func (*Stream) ToDevice(Pointer, []byte) error                         { return ErrNotBuilt }
func (*Stream) ToHost([]byte, Pointer) error                           { return ErrNotBuilt }
func (*Stream) Copy(dst, src Pointer, bytes int64) error               { return ErrNotBuilt }
func (*Stream) fill(Pointer, byte, int64) error                        { return ErrNotBuilt }
func (*Stream) Synchronize() error                                     { return ErrNotBuilt }
func (*Module) Close() error                                           { return ErrNotBuilt }
func (*Module) Function(string) (Function, error)                      { return Function{}, ErrNotBuilt }
func (Function) Launch(_, _ [3]int, _ int, _ *Stream, _ Pointer) error { return ErrNotBuilt }
func (*Thread) NewJPEGDecoder(bool, ...string) (*JPEGDecoder, error)   { return nil, ErrNotBuilt }
func (*JPEGDecoder) Close() error                                      { return ErrNotBuilt }
func (*JPEGDecoder) Decode(*Stream, []JPEG) error                      { return ErrNotBuilt }
