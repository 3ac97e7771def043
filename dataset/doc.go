// Package dataset knows which samples exist and where their bytes are.
//
// A dataset is one of three things: a directory of class directories, a flat directory, or a
// manifest. Opening one yields a table of samples in a fixed order: path, label, pixel size,
// format, and the identity (byte size and modification time) the file had when its header was
// read. The engine plans batches from this table without any I/O, and calls [Dataset.Read] for
// a sample's encoded bytes. Read rejects a file that is no longer the one that was indexed.
//
// # Order
//
// In a directory, order and labels are those of torchvision's ImageFolder: classes sorted by
// name, within a class the directories sorted by their full path, then the files by name. Names
// sort as Python sorts decoded strings, which differs from byte order only where a name is not
// valid UTF-8 (order.go). Unlike torchvision, names that start with a dot are neither samples
// nor classes, TIFF is not supported, a class without images keeps its label instead of being
// an error, and a directory that cannot be listed is an error instead of being skipped. A
// manifest defines its own order.
//
// # Index
//
// Reading every header of a large dataset takes minutes, so the result is kept in a Parquet
// file in a cache directory, never inside the dataset. The file is named by a hash of the
// dataset's path. A mount loads it, and users can query it: the columns are path, label, class,
// height, width (after orientation), orientation, format, size, mtime_ns, problem.
//
// The index is valid while the manifest, or every directory, still has its recorded
// modification time. Opening then touches no files, except those that could not be opened or
// read last time, which are tried again. Otherwise the dataset is listed anew, and only files
// whose size or time changed are read again. A file that was rewritten in place leaves no trace
// in its directory, so Options.Rescan forces that second path regardless of the times, at the
// cost of one stat per file. The index command sets it. A mount does not, and reports such a
// file as [ErrChanged] when it reads it. A directory or manifest that was modified just before
// it was listed could change once more without getting a new timestamp, so it is recorded as
// unsettled and checked again next time. A size given by a manifest is compared with the file's
// header when the header is read: by the scan, or, if the manifest also gives the format and so
// no scan is needed, by the reader of the sample. If they differ, the sample is bad and keeps
// the promised size. An index is ignored if it is damaged (a checksum covers the whole file),
// has another version, or belongs to another dataset.
//
// An index is untrusted input (index_check.go). It is not used if users other than the
// caller and root own it or its directory, or may write to either. Its paths are validated like
// a manifest's, and its counts are checked against its file size before memory is allocated for
// them.
//
// # Errors
//
// A reader of a sample has to know whether the file or the machine is at fault. [OfFile] tells
// them apart, and only the file's own errors are ever remembered, as the sample's
// [Dataset.Problem]. A scan fails if the machine is out of descriptors or memory, or if the
// storage is away ([ErrAway]); a single file that the storage fails to deliver becomes
// [Dataset.Unread].
//
// Samples are looked up relative to the dataset's directory, which stays open (root.go). When a
// file cannot be reached, that directory is examined: if it is gone or is an empty mountpoint,
// the error is ErrAway instead of [ErrMissing], and if the storage was remounted, the directory
// now at the path takes its place.
//
// Open returns when its context is done, even if a call hangs in the kernel.
//
// # Reading
//
// [Storage] chooses how files are read (storage.go): normally, or bypassing the page cache,
// which would hold a second copy of what batchfs caches itself, and whose hits come and go as
// other programs fill it. How a file system supports direct reads is learned from its first
// file. If it does not support them, or the buffer is not aligned, the file is read normally
// and dropped from the page cache afterwards. One bandwidth limiter serves all reads of a
// dataset (bandwidth.go). Whatever happens to a file during a read, the reader gets the bytes
// of the indexed version, or an error. A reader that needs only part of a file, and can tell
// which part from the file's beginning, reads only that (LoadPart).
//
// # Links and leaving the dataset
//
// Links to files and directories are followed. A directory link that leads back to a directory
// above it is [ErrLinkCycle], and the error names it; a link that leads nowhere, or to itself,
// counts as a file. A manifest's paths are cleaned lexically, and one that is absolute or
// leaves the manifest's directory is rejected unless Options.AllowOutside is set. This check
// does not resolve links: they are placed by the directory's owner, and resolving each path
// would cost one file system call per component and row.
//
// # Memory
//
// The table is columnar: one block holds all the paths, each terminated by a NUL so that it can
// be passed to the kernel as is, and the other columns are typed arrays. That is 40 bytes per
// row plus the path, and nothing for the garbage collector to scan.
//
// The package decodes nothing and knows no codec. Header contents come from the caller's
// [Prober], which sees a file's beginning and, if it asks for it, its end.
package dataset
