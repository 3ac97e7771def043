package store

import (
	"cmp"
	"context"
	"fmt"
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
		return "", fmt.Errorf("s3://BUCKET/NAME is expected, not %s", clean("s3://"+rest))
	}
	if strings.HasSuffix(bucket, "--x-s3") {
		return "", &failure{url: s.shown, kind: ErrDenied, why: "directory buckets (S3 Express One Zone) are not supported"}
	}
	c, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}))
	if err != nil {
		return "", &failure{url: s.shown, kind: ErrDenied, why: "the AWS configuration: " + clean(err.Error())}
	}
	if h, ok := c.HTTPClient.(*awshttp.BuildableClient); ok { // it may trust other authorities
		s.pool.TLSClientConfig = h.GetTransport().TLSClientConfig.Clone()
	}
	endpoint := cmp.Or(o.Endpoint, awsEndpoint(ctx, c))
	signer := &awsSigner{credentials: c.Credentials}
	signer.v4 = v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	place := func(region string) {
		signer.region.Store(&region)
		s.base.Store(s3Base(endpoint, region, bucket))
	}
	region := cmp.Or(o.Region, c.Region, "us-east-1")
	place(region)
	s.move = func(region string) bool {
		if region == *signer.region.Load() {
			return false
		}
		place(region)
		return true
	}
	s.pages = s.s3Pages
	if o.RequesterPays {
		s.header.Set("X-Amz-Request-Payer", "requester")
	}
	s.hint = anonymousHint
	if o.Anonymous {
		s.hint = ""
		return name, nil
	}
	s.signer = signer
	// Now, as the answer cannot be better later, and takes seconds where there are none.
	if _, err := c.Credentials.Retrieve(ctx); err != nil {
		return "", withURL(noCredentials("the environment, the AWS configuration or the machine", err), s.shown)
	}
	return name, nil
}

// awsEndpoint is the endpoint that the AWS configuration names for S3; "" if none.
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

// s3Base is where the objects of a bucket are. Other services than Amazon's have the bucket in
// the path; so has Amazon where its name would not fit into a certificate.
func s3Base(endpoint, region, bucket string) *url.URL {
	u := &url.URL{Scheme: "https", Path: "/"}
	if endpoint != "" {
		u, _ = url.Parse(endpoint)
		u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	} else {
		u.Host = "s3." + region + ".amazonaws.com"
		if strings.HasPrefix(region, "cn-") {
			u.Host += ".cn"
		}
		if !strings.Contains(bucket, ".") {
			u.Host = bucket + "." + u.Host
			return u
		}
	}
	return u.JoinPath(bucket + "/")
}

// An awsSigner signs as AWS's Signature Version 4.
type awsSigner struct {
	credentials aws.CredentialsProvider
	region      atomic.Pointer[string]
	v4          *v4.Signer // keeps keys by their ids
}

// nothing is the SHA-256 of no body.
const nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func (a *awsSigner) sign(ctx context.Context, r *http.Request) error {
	credentials, err := a.credentials.Retrieve(ctx)
	if err != nil {
		return noCredentials("AWS", err)
	}
	r.Header["X-Amz-Content-Sha256"] = []string{nothing}
	return a.v4.SignHTTP(ctx, credentials, r, nothing, "s3", *a.region.Load(), time.Now())
}

func (a *awsSigner) renew() {
	if cache, ok := a.credentials.(*aws.CredentialsCache); ok {
		cache.Invalidate()
	}
}

func (a *awsSigner) String() string {
	credentials, err := a.credentials.Retrieve(context.Background())
	if err != nil {
		return "AWS"
	}
	return credentials.Source
}
