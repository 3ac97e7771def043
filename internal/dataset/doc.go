// Package dataset knows which samples exist and where their bytes are.
//
// A dataset is a directory of class directories, a flat directory, a manifest, or archives, on this
// machine or in a store, or a list of these. Opening one yields a table of samples in a fixed
// order: path, label, pixel size, format, and the file's identity (byte size and modification time)
// when its header was read; for a sample in an archive, also the archive and the place in it. The
// engine plans batches from this table without any I/O, and calls [Dataset.LoadPart] for a sample's
// encoded bytes, which rejects a file that is no longer the indexed one. The package decodes
// nothing: the caller's [Prober] reads headers.
//
// # Archives and stores
//
// Package archive finds the samples in an object (members.go), and package store reads objects that
// are not files of this machine (objects.go). Both affect only where the bytes of a row are:
// [Dataset.LoadPart] opens the file that holds the sample, or asks the store for a range. Archives
// whose members are ordered like a directory, and prefixes of keys, are arranged like that
// directory (tree.go).
//
// The identity of a sample in an archive combines its own size with the archive's time. A read
// compares the archive's size and time before and after. A store delivers the indexed version or
// none, so [Dataset.Check] does not ask it.
//
// # Columns
//
// Manifests, and Parquet files with images, may have more columns than a dataset needs. [FindRows]
// finds these files again and reads only such columns, no images.
//
// # Lists
//
// A list names datasets of any kind (list.go). Each is opened as if it were alone, with an index of
// its own. Then its rows move to a common table, with labels among the classes of all datasets
// (mixture.go). The rest of the package does not know about lists, except that a read looks up the
// storage of a row ([reader.storageOf]): each dataset has its own directory, which may be away
// while others are there, or its own store. Lists of lists are refused, so that none can contain
// itself.
//
// # Order and links
//
// In a directory, order and labels are those of torchvision's ImageFolder with allow_empty: classes
// sorted by name, within a class the directories sorted by their full path, then the files by name
// ([CompareNames]). Unlike torchvision, names that start with a dot, and __MACOSX, are neither
// samples nor classes, TIFF is not supported, a class without images keeps its label even without
// allow_empty, and a directory that cannot be listed is an error instead of being skipped. A
// manifest defines its own order. A file in a directory that is named like the metadata of Hugging
// Face's image folders is the directory's manifest.
//
// Directories that are probably not classes (train and val, images and masks) are an
// [AmbiguousError]: every label would be wrong. Options.Classes fixes the label of each class;
// without it, a dataset that lacks a class numbers the later ones differently. It does not change
// the index, which serves any list of classes.
//
// Links are followed. A directory link that leads back to a directory above it is [errLinkCycle]; a
// link that leads nowhere, or to itself, counts as a file. A manifest's paths are cleaned
// lexically, and a path that leaves the manifest's directory is rejected unless
// Options.AllowOutside is set. Links are not resolved for this check: the directory's owner made
// them.
//
// # Facts
//
// Reading every header of a large dataset takes minutes, and searching archives takes longer. A
// fact about one version of a file, an object or an archive is learned once. Facts are kept in a
// cache directory, never inside the dataset (files.go), in files of package facts (facts.go).
// Opening a dataset takes four steps ([opening.run]):
//
//   - list: find the files or objects (walk.go, tree.go, manifest.go, find.go);
//   - look up: find the facts known about them (known.go);
//   - search: find the samples in unknown archives (members.go), and put those of all archives in
//     order. If archives have folders, the order and the labels are those of a directory of all
//     paths, so they depend on all archives together (found.go, tree.go);
//   - scan: read the headers that are unknown (scan.go).
//
// The file of the whole dataset, called the index, has the rows in the dataset's order and ends
// with a listing. The index is used as it is, without listing anything, while the manifest, every
// directory, and every archive still has its recorded modification time, or its version in a store;
// a prefix of keys is always listed again. Opening then touches no files, except those that could
// not be opened or read last time, which it tries again. Otherwise the index is one of the files in
// which facts are looked up, and only files whose size or time changed are read again. A file that
// was rewritten in place leaves no trace in its directory. Options.Rescan finds it, at the cost of
// one stat per file. The index command sets that option. A mount does not, and reports such a file
// as [ErrChanged]. Archives are compared in any case.
//
// An opening appends what it learns to a journal beside the index. After an interruption, the next
// opening continues from the journal.
//
// Several machines can share the work: each lists what is cheap to list (directories, manifests,
// objects), takes a share of it ([Share]), and keeps facts about that share alone. Merge opens the
// dataset without scanning: if something is missing, it says whose part that is. Like a mount, it
// trusts facts about files of this machine. It stores the index and leaves the parts, so that the
// parts of the next listing read only what is new.
//
// The index can be kept elsewhere, or fetched from a URL (Options.IndexAt, index_at.go). A fetched
// one passes the same checks as one in the cache directory, except for its owner. What is in the
// store is then not listed, and every read still names the version that was indexed.
//
// Files of facts are untrusted input. A damaged file is used up to the damage. A file is ignored if
// it has another version, belongs to another dataset, or if users other than the caller and root
// own it or its directory, or may write to either. Paths are validated like a manifest's, and
// counts are checked against the size of the file before memory is allocated.
//
// Entry points of JPEGs are facts, too, but they are read one by one while batches are made. They
// are in a file beside the index, which finds them by path; see package entries and
// [Dataset.OpenEntries].
//
// # Errors and reading
//
// A reader of a sample must know whether the file or the machine is at fault. Package fault tells
// them apart, and only the file's own errors are remembered, as the sample's [Dataset.Problem]. A
// scan fails if the machine is out of descriptors or memory, or if the storage is away ([ErrAway]).
// A single file that the storage fails to deliver becomes [Dataset.Unread].
//
// A sample is looked up by its path at each read, so that storage which was mounted again is used
// at once. When a file cannot be reached, the dataset's directory is examined (root.go): if it is
// gone or is an empty mountpoint, the error is ErrAway instead of [ErrMissing]. Of a store's
// errors, only a missing or changed object is the sample's own.
//
// [Storage] chooses how files are read (storage.go): normally, or bypassing the page cache, which
// would hold a second copy of what batchfs caches itself. Whatever happens to a file during a read,
// the reader gets the bytes of the indexed version, or an error.
package dataset
