// Package store reads parts of objects in object stores and on web servers. It knows no dataset:
// an [Object] is a name, a size and a version, and a read names all three.
//
// # URLs
//
//	s3://BUCKET/NAME                 Amazon S3, and what is compatible with it (Endpoint)
//	gs://BUCKET/NAME                 Google Cloud Storage
//	az://CONTAINER@ACCOUNT/NAME      Azure Blob Storage; abfs and abfss are the same
//	az://CONTAINER/NAME              in the account of the options
//	http(s)://HOST/NAME              a web server; a query is sent with every request
//	hf://datasets/ORG/DATASET/NAME   Hugging Face; DATASET@REVISION for another than main
//
// Names are taken as they are, except that those of http(s) are escaped, as in any URL.
// The forms for az are those of adlfs, where the account is written in full
// (ACCOUNT.dfs.core.windows.net), which is understood here, too.
//
// # What a read is
//
// A read asks for a range and, by If-Match, for the version that was seen when the object was
// listed. The answer is checked all the same: its range, its length, its ETag, the object's size.
// One that is not about exactly the bytes that were asked for is an error, whatever its status.
// The revision of hf is looked up once, and every request names its commit.
// What has neither ETag nor modification time is told from another version by its size alone.
//
// # When requests fail
//
// Failures that may pass (500, 503, 429, resets, refused connections, silence) are tried again
// after a random delay that doubles, or as long as the server asks for; a cut-off answer is
// continued. An object that cannot be had while others can fails after about half a minute. Where
// several requests in a row fail and none succeeds, the store is away (outage.go): calls wait, one
// at a time asks whether that is over, at most once a second, and any answer ends it. So an outage
// costs its own length, whatever is in flight, and no call fails before Options.Wait is over. A
// store that has never answered is waited for only 15 s, as its name may be wrong. 401, 403, 404
// and 412 are answers: nothing waits for others.
//
// A store that refuses requests for their number (503, 429) is sent as many as it accepts
// (pace.go). The rate is learnt as TCP learns a bandwidth: it falls to what was accepted, rises by
// a percent in a second, and is forgotten after a minute without a refusal. Before any, only the
// number in flight is bounded: 64 at first, and one more for every four answers.
//
// The first byte of some answers takes far longer than usual. After twice the time that 95 % of the
// last ones took, a second request is sent beside the first; the first good answer is used, and the
// other request ends. Not more than 3 % of the requests are sent twice. After ten times that time
// (half a second at least, doubled with each try) the try is given up, and a try in whose answer no
// data comes for as long. That counts as an answer that took so long: a store that has become slow
// is soon waited for. In any case a try fails if no data comes for Options.Timeout.
//
// # Credentials
//
// They come from the vendors' libraries, which also look into the environment, their configuration
// files and the machine's metadata: AWS's for s3 (with region, endpoint and AWS_CA_BUNDLE),
// Google's default credentials for gs, Azure's for az. Go itself reads the variables of proxies,
// SSL_CERT_FILE and SSL_CERT_DIR. This package reads no environment. A token is replaced before it
// ends, and serves to its end if that fails. Credentials that are not accepted any more are renewed
// once for a request, from what files and services have then. Amazon's signatures name neither the
// range nor the version that is wanted; those of parts of an object are used for a minute
// (memo.go). They are shown to the store's host only, and appear in no error, no log and no
// [Object]: of what a server says about an error, only the code is repeated, and queries are cut
// off URLs.
//
// # Resources
//
// Each request has a connection of its own (HTTP/1.1), which is kept for the next one:
// Options.MaxRequests, and a few for hedges. The goroutine that wants the bytes writes the request
// and reads the answer (connections.go): net/http's transport, which has two goroutines
// for each connection, is used only where there is a proxy. No goroutine outlives a call by more
// than the time that cancelling takes. Bytes are read into the caller's memory.
package store
