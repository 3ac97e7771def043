// Package store reads parts of objects in object stores and on web servers. It knows no dataset: an
// [Object] is a name, a size and a version, and a read names all three.
//
// # URLs
//
//	s3://BUCKET/NAME                 Amazon S3, and what is compatible with it (Endpoint)
//	gs://BUCKET/NAME                 Google Cloud Storage
//	az://CONTAINER@ACCOUNT/NAME      Azure Blob Storage
//	az://CONTAINER/NAME              in the account of the options
//	http(s)://HOST/NAME              a web server; a query is sent with every request
//	hf://datasets/ORG/DATASET/NAME   Hugging Face; DATASET@REVISION for another than main
//
// Names are taken as they are, except that those of http(s) are escaped, as in any URL.
//
// # What a read is
//
// A read asks for a range and, by If-Match, for the version that was seen when the object was
// listed. The answer is checked all the same: its range, its length, its ETag, the object's size.
// An answer that is not about exactly the requested bytes is an error, whatever its status. The
// revision of hf is looked up once, and every request names its commit. Without ETag and
// modification time, only the size tells versions of an object apart.
//
// # When requests fail
//
// Failures that may pass (500, 503, 429, resets, refused connections, silence) are tried again
// after a random delay that doubles, or as long as the server asks for; a cut-off answer is
// continued. An object that fails while others succeed is given up after about half a minute. If
// several requests in a row fail and none succeeds, the store is away (outage.go): calls wait, one
// at a time probes whether the outage is over, at most once a second, and any answer ends it. So an
// outage costs its own length, however many calls are in flight, and no call fails before
// Options.Wait is over. A store that has never answered is waited for only 15 s, as its name may be
// wrong. 401, 403, 404 and 412 are answers: they do not make other calls wait.
//
// A store that refuses requests for their number (503, 429) is sent as many as it accepts
// (pace.go). The rate is learnt as TCP learns a bandwidth: it falls to what was accepted, rises by
// a percent in a second, and is forgotten after a minute without a refusal. Before the first
// refusal, only the number in flight is bounded: 64 at first, and one more for every four answers.
//
// The first byte of some answers takes far longer than usual. After twice the time that 95 % of
// recent answers took, a second request is sent beside the first; the first good answer is used,
// and the other request ends. At most 3 % of the requests are sent twice. A try is given up after
// ten times that time (half a second at least, doubled with each try) without an answer, or without
// data of an answer. It counts as an answer that took so long, so the client soon waits longer for
// a store that has become slow. In any case a try fails if no data comes for Options.Timeout.
//
// # Credentials
//
// They come from the vendors' libraries, which also look into the environment, their configuration
// files and the machine's metadata: AWS's for s3 (with region, endpoint and AWS_CA_BUNDLE),
// Google's default credentials for gs, Azure's for az. Go itself reads the variables of proxies,
// SSL_CERT_FILE and SSL_CERT_DIR. This package reads no environment. A token is replaced before it
// ends, and serves to its end if that fails. When credentials are no longer accepted, a request
// renews them once from the present files and services. Amazon's signatures cover neither the range
// nor the version; those for parts of an object are used for a minute (memo.go). Credentials are
// shown to the store's host only, and appear in no error, no log and no [Object]: of a server's
// error message, only the code is repeated, and queries are cut off URLs.
//
// # Resources
//
// Each request has a connection of its own (HTTP/1.1), which is kept for later requests:
// Options.MaxRequests, and a few for hedges. The goroutine that wants the bytes writes the request
// and reads the answer (connections.go): net/http's transport, which has two goroutines for each
// connection, is used only with a proxy. No goroutine outlives a call by more than the time that
// cancelling takes. Bytes are read into the caller's memory.
package store
