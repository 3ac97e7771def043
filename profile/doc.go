// Package profile finds the mix of encoded and raw samples that a machine prepares
// fastest: the offline profiler of Liquid, with a finer answer and a check.
//
// Encoded samples keep the processors busy, raw ones the storage. With more raw
// samples loading gets slower and decoding faster, and a mount is about as fast as the
// slower of the two, so the best mix is where both are equally fast. Both depend
// on everything that a mount is told (what becomes of the pixels, how many workers there are,
// how large the cache is, how fast its storage may be), and so the profiler takes the
// same settings. It knows no mount: it uses the engine, and the packages below.
//
// # What is measured
//
// A sample of the dataset, spread evenly over it, gets raw copies in a directory of its own. A
// mix is a manifest that names, for each image, the original or the copy, so that no mix
// needs copies of its own. Of a mix,
//
//   - loading is measured by as many goroutines as the mount has workers, which read
//     files as the mount would and do nothing else. Of what is read in
//     an epoch, a cache holds a share that follows from its size and the dataset's (hits.go), and
//     only the rest comes from storage: loading is faster by as much;
//   - decoding is measured by an engine with the mount's settings whose cache
//     holds everything, from the second epoch on.
//
// # The search
//
// Of 11 mixes, from all encoded to all raw, the one in the middle is measured first. Where
// loading is the slower of the two, more raw samples would make it slower still, so those
// mixes are dropped; else those with fewer. The search ends between two
// neighbours, one limited by loading and one by decoding, with four measurements at most, and
// the better of them is the best of all 11 (search.go).
//
// What was measured also tells what one encoded and one raw image cost to read and to
// decode. From these costs follow two curves, and where they cross is the finer answer
// (costs.go). At last the engine runs for real, with that mix, with its neighbours of the search and with the
// two ends. Where a run contradicts the model (workers that wait for storage do not decode
// meanwhile), the run is right.
//
// # What is left behind
//
// Nothing: the directory is removed however Run ends, unless the process is killed.
package profile
