// Package dataset knows which samples exist and where their bytes are.
//
// A dataset is a directory of class directories, a flat directory, a manifest, or archives, on this
// machine or in a store, or a list of such. Opening one yields a table of samples in a fixed order:
// path, label, pixel size, format, and the identity (byte size and modification time) the file had
// when its header was read; for a sample that is not a file, also the object that holds it, and
// where. The engine plans batches from this table without any I/O, and calls [Dataset.LoadPart] for
// a sample's encoded bytes, which rejects a file that is no longer the one that was indexed. The
// package decodes nothing: header contents come from the caller's [Prober].
//
// # Archives and stores
//
// Package archive finds the samples in an object (members.go), package store reads objects that are
// not files of this machine (objects.go). Both only change where the bytes of a row are:
// [Dataset.LoadPart] opens the file that holds the sample, or asks the store for a range. An
// archive whose order is that of a directory, and a prefix of keys, are arranged as that directory
// would be (tree.go).
//
// The identity of a sample in an archive has its own size and the time of the archive, whose size
// and time are compared before and after each read. A store is read in the version that the index
// names or not at all, so [Dataset.Check] does not ask it.
//
// # Columns
//
// Manifests, and Parquet files with images, may have more columns than a dataset needs. [FindRows]
// finds these files again and reads only such columns, no images.
//
// # Lists
//
// A list names datasets of any kind (list.go). Each of them is opened as if it were alone, with an
// index of its own, and then its rows are moved into one table, with labels among the classes of
// all (mixture.go). So nothing else knows of lists, except that a read asks in which storage a row
// is ([reader.storageOf]): each has its own directory, which may be away while others are there, or
// its own store. Lists of lists are refused, so that none leads back to itself.
//
// # Order and links
//
// In a directory, order and labels are those of torchvision's ImageFolder with allow_empty: classes
// sorted by name, within a class the directories sorted by their full path, then the files by name
// ([CompareNames]). Unlike torchvision, names that start with a dot, and __MACOSX, are neither
// samples nor classes, TIFF is not supported, a class without images keeps its label even without
// allow_empty, and a directory that cannot be listed is an error instead of being skipped. A
// manifest defines its own order; in a directory, a file named like the metadata of Hugging Face's
// image folders is its manifest.
//
// Directories that are no classes (train and val, images and masks) are an [AmbiguousError]: every
// label would be wrong. Options.Classes fixes which label a class has, since a dataset that lacks
// a class would otherwise number the later ones differently. It does not change the index, which
// serves any list.
//
// Links are followed. A directory link that leads back to a directory above it is
// [errLinkCycle]; a link that leads nowhere, or to itself, counts as a file. A manifest's paths
// are cleaned lexically, and one that leaves the manifest's directory is rejected unless
// Options.AllowOutside is set. Links are not resolved for this: the directory's owner made them.
//
// # Facts
//
// Reading every header of a large dataset takes minutes, and searching archives takes longer. What
// was learned of one version of a file, an object or an archive is a fact that need not be learned
// again. Facts are kept in a cache directory, never inside the dataset (files.go), in files of
// package facts (facts.go). Opening a dataset is ([opening.run]):
//
//   - list: which files or objects there are (walk.go, tree.go, manifest.go, find.go);
//   - look up: what is known of them (known.go);
//   - search: find the samples in the archives of which nothing is known (members.go), and put those
//     of all archives in order. Where these have folders, the order and the labels are those of a
//     directory of all paths, so that they follow from all archives together (found.go, tree.go);
//   - scan: read the headers of which nothing is known (scan.go).
//
// The file of the whole dataset has its rows in their order, ends with its listing, and is called
// the index. It is used as it
// is, without listing anything, while the manifest, every directory, and every archive still has
// its recorded modification time, or its version in a store; a prefix of keys is always listed
// again. Opening then touches no files, except those that could not be opened or read last time,
// which are tried again. Otherwise the index is one of the files in which facts are looked up, and
// only files whose size or time changed are read again. A file that was rewritten in place leaves
// no trace in its directory, so Options.Rescan forces that second path, at the cost of one stat per
// file. The index command sets it. A mount does not, and reports such a file as [ErrChanged].
// Archives are compared in any case.
//
// While a dataset is opened, what is learned is appended to a journal beside the index. If that is
// interrupted, the next opening finds it there.
//
// Many machines learn together: each lists what is cheap to list (directories, manifests, objects),
// takes a share of it ([Share]), and keeps facts about that alone. Merge is an opening that does
// not scan what is missing, but says whose part it is. It believes the parts about files of this
// machine, as a mount does, and stores the index. The parts stay, so that those of the next listing
// read only what is new.
//
// The index can be kept elsewhere, or fetched from a URL (Options.IndexAt, index_at.go). A fetched
// one passes the same checks as one in the cache directory, except who owns it; what is in the
// store is then not listed, and every read still names the version that was indexed.
//
// Files of facts are untrusted input. Of a damaged one, what comes before the damage is used. One
// is ignored if it has another version, belongs to another dataset, or if users other than the
// caller and root own it or its directory, or may write to either. Paths are validated like a
// manifest's, and counts are checked against the size of the file before memory is allocated.
//
// Entry points of JPEGs are facts, too, but are read one by one while batches are made. They are in
// a file of their own beside the index, which finds them by path; see package entries and
// [Dataset.OpenEntries].
//
// # Errors and reading
//
// A reader of a sample has to know whether the file or the machine is at fault. Package fault tells
// them apart, and only the file's own errors are ever remembered, as the sample's
// [Dataset.Problem]. A scan fails if the machine is out of descriptors or memory, or if the
// storage is away ([ErrAway]); a single file that the storage fails to deliver becomes
// [Dataset.Unread].
//
// A sample is looked up by its path at each read, so that storage which was mounted again is used
// at once. When a file cannot be reached, the dataset's directory is examined (root.go): if it is
// gone or is an empty mountpoint, the error is ErrAway instead of [ErrMissing]. Of a store's
// errors, only a missing or changed object is the sample's own.
//
// [Storage] chooses how files are read (storage.go): normally, or bypassing the page cache,
// which would hold a second copy of what batchfs caches itself. Whatever happens to a file
// during a read, the reader gets the bytes of the indexed version, or an error.
package dataset
