// Package profile finds the mix of encoded and raw samples that a machine prepares fastest:
// the offline profiler of Liquid, with a finer answer and a check.
//
// Encoded samples keep the processors busy, raw ones the storage. With more raw samples,
// loading gets slower and decoding faster. A mount is about as fast as the slower of the
// two, so the best mix is where both are equally fast. Both depend on all settings of the
// mount, so the profiler takes the same settings. It does not mount anything.
//
// # What is measured
//
// Samples spread evenly over the dataset get raw copies in a separate directory, which is
// removed however Run ends. A mix is a manifest that names, for each image, the original or
// the copy. For each mix,
//
//   - the entry points that the mount would keep are found first, since later epochs have them;
//   - loading is measured with as many reads under way as keep a disk busy, as the mount reads
//     and with nothing else to do. The cache serves a share of the reads, which
//     follows from its size and the dataset's (hits.go) and makes loading faster;
//   - decoding is measured with an engine whose cache holds everything, from the second
//     epoch on. If a GPU decodes, batches stay on it, as readers of .cuda have them.
//
// # The search
//
// At most four measurements find the best of 11 mixes, from all encoded to all raw (search.go).
// They also tell what one encoded and one raw image cost to read and to decode. Two curves
// follow from these costs, and their crossing is the finer answer (costs.go). Finally, the engine
// runs with that mix, with its neighbors in the search and with the two ends, in turns. If a run
// contradicts the model, the run is
// right, unless the difference is within the noise of the turns, and a mix that is not at least LeastGain times as fast as the
// dataset as it is is not recommended. The first epoch of a run, which
// fills the cache, is measured apart.
//
// No cache that holds the measured images but may not hold the dataset makes loading seem fast:
// files are read past the page cache, and the mount's cache serves the share that it would serve
// of the whole dataset, or none if it would hold all and the dataset may be a part of a larger one.
package profile
