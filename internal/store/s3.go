package store

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"
)

// openS3 opens s3://BUCKET/NAME.
func openS3(ctx context.Context, s *site, rest string, o Options) (name string, err error) {
	bucket, name, _ := strings.Cut(rest, "/")
	s.shown = "s3://" + bucket + "/"
	if bucket == "" || strings.ContainsAny(bucket, "@:?#") {
		return "", wrongURL("s3://"+rest, "s3://BUCKET/NAME")
	}
	if strings.HasSuffix(bucket, "--x-s3") {
		return "", &failure{url: s.shown, kind: ErrDenied, why: "directory buckets (S3 Express One Zone) are not supported"}
	}
	c, err := awsConfig(ctx)
	if err != nil {
		return "", &failure{url: s.shown, kind: ErrDenied, why: "the AWS configuration: " + oneLine(err)}
	}
	if h, ok := c.HTTPClient.(*awshttp.BuildableClient); ok { // it may trust other authorities
		s.pool.trust(h.GetTransport().TLSClientConfig)
	}
	var endpoint *url.URL // nil: Amazon's
	if at := cmp.Or(o.Endpoint, awsEndpoint(ctx, c)); at != "" {
		if endpoint, err = service(at); err != nil {
			return "", err
		}
		s.transport = s.pool.follow // AIStore's gateways redirect readers to the machine that has an object
	}
	signer := &awsSigner{signatures: memo[signed, http.Header]{life: signatureLife, most: mostSignatures}}
	signer.credentials = aws.NewCredentialsCache(signer.provider(c))
	signer.v4 = v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	place := func(region string) {
		signer.region.Store(&region)
		s.base.Store(s3Base(endpoint, region, bucket))
	}
	place(cmp.Or(o.Region, c.Region, "us-east-1"))
	s.move = place
	s.pages = s.s3Pages
	if o.RequesterPays {
		s.header.Set("X-Amz-Request-Payer", "requester")
	}
	if o.Anonymous {
		return name, nil
	}
	s.signer = signer
	// Now, because the answer will not be better later, and takes seconds without credentials.
	if _, err := c.Credentials.Retrieve(ctx); err != nil {
		return "", withURL(noCredentials(awsSource, err), s.shown)
	}
	return name, nil
}

const awsSource = "the environment, the AWS configuration or the machine"

func awsConfig(ctx context.Context) (aws.Config, error) {
	early := func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = tokenMargin }
	return config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}), config.WithCredentialsCacheOptions(early))
}

// awsEndpoint is the S3 endpoint in the AWS configuration; "" if none.
func awsEndpoint(ctx context.Context, c aws.Config) string {
	type provider interface {
		GetServiceBaseEndpoint(ctx context.Context, service string) (string, bool, error)
	}
	for _, source := range c.ConfigSources {
		if p, ok := source.(provider); ok {
			if endpoint, found, err := p.GetServiceBaseEndpoint(ctx, "S3"); err == nil && found {
				return endpoint
			}
		}
	}
	return aws.ToString(c.BaseEndpoint)
}

// s3Base is the URL of a bucket's objects. Services other than Amazon's have the bucket in the
// path. So does Amazon for a name that does not fit into a certificate.
func s3Base(endpoint *url.URL, region, bucket string) *url.URL {
	if endpoint != nil {
		return endpoint.JoinPath(bucket + "/")
	}
	host := "s3." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		host += ".cn"
	}
	if strings.Contains(bucket, ".") {
		return &url.URL{Scheme: "https", Host: host, Path: "/" + bucket + "/"}
	}
	return &url.URL{Scheme: "https", Host: bucket + "." + host, Path: "/"}
}

// An awsSigner signs with AWS's Signature Version 4.
type awsSigner struct {
	credentials *aws.CredentialsCache
	refused     atomic.Bool // the credentials read last were refused
	region      atomic.Pointer[string]
	v4          *v4.Signer // keeps keys by their ids
	last        atomic.Pointer[aws.Credentials]
	signatures  memo[signed, http.Header] // never changed after signing
}

// A signed is the part of a request that its signature covers. That excludes the range, so requests
// for parts of an object, such as an archive, can share a signature. Making one takes about a
// twentieth of the processor time of an image of 100 KB.
type signed struct {
	host, path, query string
	key               *aws.Credentials
	region            *string
}

const (
	// Amazon accepts signatures whose time differs from its own by up to 15 minutes.
	signatureLife  = time.Minute
	mostSignatures = 1 << 10 // of about 1 KiB
)

// provider returns the credentials of a configuration. After a refusal it reads them again: they
// may have been replaced in a file, which the library would not notice.
func (a *awsSigner) provider(c aws.Config) aws.CredentialsProviderFunc {
	return func(ctx context.Context) (aws.Credentials, error) { // never called twice at once
		if a.refused.Load() {
			again, err := awsConfig(ctx)
			if err != nil {
				return aws.Credentials{}, err
			}
			c = again
			a.refused.Store(false)
		}
		return c.Credentials.Retrieve(ctx)
	}
}

// nothing is the SHA-256 of an empty body.
const nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func (a *awsSigner) sign(ctx context.Context, r *http.Request, repeated bool) error {
	credentials, err := a.credentials.Retrieve(ctx)
	if err != nil {
		return noCredentials(awsSource, err)
	}
	key, region := a.last.Load(), a.region.Load()
	if key == nil || *key != credentials {
		key = new(aws.Credentials)
		*key = credentials
		a.last.Store(key)
	}
	about := signed{r.URL.Host, r.URL.RawPath, r.URL.RawQuery, key, region}
	if header, found := a.signatures.find(about); repeated && found {
		maps.Copy(r.Header, header)
		return nil
	}
	r.Header["X-Amz-Content-Sha256"] = []string{nothing}
	err = a.v4.SignHTTP(ctx, credentials, r, nothing, "s3", *region, time.Now())
	if repeated && err == nil {
		a.signatures.keep(about, maps.Clone(r.Header))
	}
	return err
}

func (a *awsSigner) renew(expired string) {
	if strings.Contains(expired, "Credential="+a.last.Load().AccessKeyID+"/") {
		a.refused.Store(true)
		a.credentials.Invalidate()
	}
}

// String must not be called before something was signed.
func (a *awsSigner) String() string { return a.last.Load().Source }
