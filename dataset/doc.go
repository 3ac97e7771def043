// Package dataset knows which samples exist and where their bytes are.
//
// A dataset is one of three things: a directory of class directories, a flat
// directory, or a manifest. Opening one yields a table of samples in a fixed
// order: path, label, pixel size, format, and the identity (byte size and
// modification time) that the file had when its header was read. The engine
// asks the table for what it needs to plan a batch, which takes no I/O, and
// calls [Dataset.Read] for a sample's encoded bytes, which refuses a file that
// is no longer the one that was indexed.
//
// # Order
//
// In a directory the order and the labels are those of torchvision's
// ImageFolder: classes sorted by name, in a class the directories sorted by
// their full path, then the files by name. "Sorted" means as Python sorts
// decoded names, which differs from the order of the bytes only where a name is
// no UTF-8 (order.go). Unlike torchvision, names that start with a dot are no
// samples and no classes, TIFF is no format, a class without images keeps its
// label instead of being an error, and a directory that cannot be listed is an
// error instead of being skipped. A manifest's order is its own.
//
// # Index
//
// Reading every header of a large dataset takes minutes, so the result is kept
// in a Parquet file in a cache directory, never inside the dataset, named by a
// hash of the dataset's path. It is both what a mount loads and what a user can
// query: the columns are path, label, class, height, width (after orientation),
// orientation, format, size, mtime_ns, problem.
//
// The index is used while the manifest, or every directory, still has the
// modification time that was recorded; no file is touched then, except those
// that could not be opened or read last time, which are tried again. Otherwise
// the dataset is listed anew and only files whose size or time changed are read
// again. A file that was rewritten in place leaves no trace in its directory,
// so Options.Rescan takes that second way whatever the times say. It costs a
// stat a file. The index command asks for it; a mount does not, and finds such
// a file [ErrChanged] when it reads it. A directory or manifest that was
// modified just before it was listed could change once more without a new
// timestamp, so it is recorded as unsettled and checked again next time. A size
// that a manifest gives is held against the file's header when that is read,
// here or, where the manifest gives the format too and nothing has to be
// scanned, by whoever reads the sample; one that differs is a bad sample, of
// the size that was promised. An index that is damaged (a checksum covers the
// whole file), of another version or of another dataset is ignored.
//
// An index is input like any other (index_check.go): one that others own or may write
// to, or whose directory is such, is not used, its paths are judged as a manifest's
// are, and its counts are held against its size before memory is taken for them.
//
// # Errors
//
// Whoever reads a sample has to know whether the file or the machine is at fault:
// [OfFile] says so, and only what it says of a file is ever remembered, as the
// sample's [Dataset.Problem]. A scan ends where the machine lacks descriptors or
// memory, or where the storage is away ([ErrAway]); a single file that the storage
// does not give is [Dataset.Unread].
//
// Samples are looked up from the dataset's directory, which stays open (root.go).
// Where a file cannot be reached, that directory is looked at: one that is gone, or an
// empty mountpoint, makes it ErrAway instead of [ErrMissing], and where the storage was
// mounted anew the directory that is now at the path takes its place.
//
// Open ends with its context, also where a call hangs in the kernel.
//
// # Reading
//
// Files are read as [Storage] says (storage.go): like any file, or past the page
// cache, whose hits come and go as others fill it, and which would hold a second
// copy of what batchfs keeps itself. How a file system reads directly is learned
// from its first file; where it does not, and where the memory at hand is not
// aligned, the file is read in the ordinary way and dropped from the page cache
// afterwards. One bucket of bandwidth serves all reads of a dataset (bandwidth.go).
// Whatever happens to a file while it is read, its reader gets the bytes of the
// version that the index knows, or an error. Who needs only some of a file's bytes, which
// its beginning tells, reads only those (LoadPart).
//
// # Links and leaving the dataset
//
// Links are followed, to files and to directories. A directory link that leads
// back to a directory above it is [ErrLinkCycle], and named; a link that leads
// nowhere, or to itself, counts as a file. A manifest's paths are cleaned
// lexically, and one that is absolute or leaves the manifest's directory is
// refused unless Options.AllowOutside. Links are not resolved for that rule: a
// link is placed by whoever owns the directory, and resolving each path would
// cost a file system call a component and row.
//
// # Memory
//
// The table is columnar: one block holds all the paths, each closed by a NUL so
// that it can be handed to the kernel as it is, and the other columns are typed
// arrays. That is 40 bytes a row beside the path, and nothing the garbage
// collector has to look into.
//
// The package decodes nothing and knows no codec: what a header says comes from
// the caller's [Prober], which sees a file's beginning and, where it asks for that, its end.
package dataset
