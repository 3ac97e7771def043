// Package sample reads and decodes single samples: for the workers of a mount, which fill
// the slots of a batch, and for commands that look at every file and need no batch.
//
// A [Loader] reads a sample's file and judges it: whether it holds an image that may be
// decoded and that is the indexed one. Mounts, verify, convert and profile share this code,
// so a file that is bad for one of them is bad for all.
//
// A [Reader] adds what a mount gets from its engine: memory for the file and its pixels.
// The memory comes from a [Memory] shared by all readers of a command, so that together
// they stay within --memory-limit. A file that needs more is not bad: it is not read, and
// the error says how much memory it needs.
//
// [OfFile] tells faults of a file from faults of the machine.
package sample
