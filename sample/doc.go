// Package sample takes one sample from storage to its pixels: what a mount's workers do
// for a slot of a batch, and what commands do that look at every file and need no batch.
//
// A [Loader] reads a sample's file and judges it: whether it holds an image that may be
// decoded, and the one that was indexed. Mounts, verify, convert and profile judge with the
// same words, so that a file that one of them calls bad is bad for all.
//
// A [Reader] adds what a mount has an engine for: memory for the file and its pixels, taken
// from a [Memory] that all readers of a command share, so that none of them takes more than
// --memory-limit allows. A file that needs more is not bad; it is not read, and the error
// says what it takes.
//
// [OfFile] tells what is wrong with a file from what is wrong with the machine.
package sample
