package store

import (
	"cmp"
	"context"
	"strings"
	"time"

	"golang.org/x/oauth2/google"
)

// openGS opens gs://BUCKET/NAME, through the XML interface, which matches S3's.
func openGS(ctx context.Context, s *site, rest string, o Options) (name string, err error) {
	bucket, name, _ := strings.Cut(rest, "/")
	s.shown = "gs://" + bucket + "/"
	if bucket == "" || strings.ContainsAny(bucket, "@:?#") {
		return "", wrongURL("gs://"+rest, "gs://BUCKET/NAME")
	}
	base, err := service(cmp.Or(o.Endpoint, "https://storage.googleapis.com"))
	if err != nil {
		return "", err
	}
	s.base.Store(base.JoinPath(bucket + "/"))
	s.pages = s.s3Pages
	if o.Anonymous {
		return name, nil
	}
	if o.RequesterPays {
		credentials, err := googleCredentials()
		if err != nil {
			return "", withURL(noCredentials(googleSource, err), s.shown)
		}
		s.header.Set("X-Goog-User-Project", credentials.ProjectID)
	}
	return name, s.useBearer(ctx, googleSource, func(context.Context) (string, time.Time, error) {
		credentials, err := googleCredentials()
		if err != nil {
			return "", time.Time{}, err
		}
		token, err := credentials.TokenSource.Token()
		if err != nil {
			return "", time.Time{}, err
		}
		return token.AccessToken, token.Expiry, nil
	})
}

const googleSource = "Google's application default credentials"

// googleCredentials takes no context, because its result would keep it.
func googleCredentials() (*google.Credentials, error) {
	return google.FindDefaultCredentials(context.Background(), "https://www.googleapis.com/auth/devstorage.read_only")
}
