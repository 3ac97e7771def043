// Package gpu puts batches into the memory of a GPU, where training programs map them.
//
// A [Device] divides large allocations (slabs) into slots of one batch each. A slab is exported
// once, so another process maps it once, and finds later batches by their offsets. Slabs only
// grow in number: freeing one while another process has it mapped is undefined. The package
// knows nothing of batches or processes; a slot belongs to its caller until Release.
//
// Failures are of three kinds: ErrFull passes when slots are released; ErrMemory is the driver's
// refusal, or a batch that cannot fit; ErrLost lasts until the process ends, and the driver is
// not asked any more.
package gpu
