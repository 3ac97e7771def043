// Package profile says what mounts of a dataset would do on this machine. A [DryRun] computes what
// they would read, and what their caches would keep. A [Comparison] measures them, beside what the
// machine can do at most. [Run] finds the mix of encoded, packed and raw samples that is prepared
// fastest: the offline profiler of Liquid, with a third form, a finer answer and a check.
//
// # Mixes
//
// Encoded samples keep the processors busy, raw ones the storage; packed ones are in between. With
// more of the larger files, loading gets slower and decoding faster. A mount is about as fast as
// the slower of the two, so the best mix is where both are equally fast. Both depend on all
// settings of the mount, so Run takes the same settings. It does not mount anything.
//
// # What is measured
//
// Samples spread evenly over the dataset get raw and packed copies in a separate directory, which
// is removed however Run ends. A mix is a manifest that names, for each image, the original or a
// copy. For each mix,
//
//   - the entry points that the mount would keep are found first, since later epochs have them;
//   - loading is measured with enough concurrent reads to keep a disk busy, as the mount reads and
//     with nothing else to do. The cache serves a share of the reads, which follows from its size
//     and the dataset's (hits.go) and makes loading faster;
//   - decoding is measured with an engine whose cache holds everything, from the second epoch on.
//     If a GPU decodes, batches stay on it, as for readers of .cuda.
//
// # The search
//
// A mix of three forms is never better than the best mix of two, since two costs decide. So the
// forms make a path, from encoded ones alone through packed to raw ones alone, on which loading
// gets slower and decoding faster (search.go). At most four measurements find the best of 11 mixes
// on it, or five the best of 21. They also tell what one image of each form costs to read and to
// decode; with three forms, the two ends are measured, too. Two curves follow from these costs, and
// where they cross is the finer answer, which may leave out packed images (costs.go). Finally, the
// engine runs in turns with that mix, with its neighbors on the path, and with each form alone. If
// a run contradicts the model, the run is right, unless the difference is within the noise of the
// turns. A mix that is not at least LeastGain times as fast as the unchanged dataset is not
// recommended. The first epoch of a run, which fills the cache, is measured separately.
//
// A cache may hold the measured images but not the whole dataset. That must not make loading seem
// fast: files are read past the page cache, and the mount's cache serves the share that it would
// serve of the whole dataset, or none if it would hold all and the dataset may be a part of a
// larger one.
package profile
