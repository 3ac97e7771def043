package store

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// openAZ opens az://CONTAINER@ACCOUNT/NAME and az://CONTAINER/NAME.
func openAZ(ctx context.Context, s *site, rest string, o Options) (name string, err error) {
	place, name, _ := strings.Cut(rest, "/")
	container, account, named := strings.Cut(place, "@")
	s.shown = "az://" + place + "/"
	if container == "" || strings.ContainsAny(place, ":?#") || strings.Contains(account, "@") {
		return "", wrongURL("az://"+rest, "az://CONTAINER@ACCOUNT/NAME")
	}
	if !named {
		account = o.Account
	}
	if account == "" && o.Endpoint == "" {
		return "", wrongURL("az://"+rest, fmt.Sprintf("an account, as in az://%s@ACCOUNT/%s,", container, name))
	}
	base, err := service(cmp.Or(o.Endpoint, "https://"+account+".blob.core.windows.net"))
	if err != nil {
		return "", err
	}
	base = base.JoinPath(container + "/")
	s.header.Set("X-Ms-Version", "2023-11-03")
	s.pages, s.sorts = s.azPages, true
	if o.Signature != "" && !o.Anonymous {
		base.RawQuery = strings.TrimPrefix(o.Signature, "?")
		s.hint = " but the shared access signature"
	}
	s.base.Store(base)
	if o.Signature != "" || o.Anonymous {
		return name, nil
	}
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return "", withURL(noCredentials(azureSource, err), s.shown)
	}
	return name, s.useBearer(ctx, azureSource, func(ctx context.Context) (string, time.Time, error) {
		token, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{"https://storage.azure.com/.default"}})
		return token.Token, token.ExpiresOn, err
	})
}

const azureSource = "Azure's default credentials"

// An azPage is an answer to List Blobs.
type azPage struct {
	XMLName xml.Name `xml:"EnumerationResults"`
	Blobs   struct {
		Blob []struct {
			Name struct {
				Text    string `xml:",chardata"`
				Encoded bool   `xml:",attr"`
			}
			Properties struct {
				Length       int64  `xml:"Content-Length"`
				ETag         string `xml:"Etag"`
				LastModified string `xml:"Last-Modified"`
				ResourceType string
			}
		}
	}
	NextMarker string
}

// azPages lists with List Blobs.
func (s *site) azPages(prefix, _ string) pager {
	return func(ctx context.Context, token string) ([]Object, string, error) {
		query := url.Values{"restype": {"container"}, "comp": {"list"}, "prefix": {prefix}}
		if token != "" {
			query.Set("marker", token)
		}
		var page azPage
		if err := s.ask(ctx, prefix, nil, query, func(r io.Reader, _ http.Header) error {
			page = azPage{} // a failed try may have filled it in part
			return xml.NewDecoder(r).Decode(&page)
		}); err != nil {
			return nil, "", err
		}
		var objects []Object
		for _, b := range page.Blobs.Blob {
			o := Object{Name: b.Name.Text, Size: b.Properties.Length, Version: quoted(b.Properties.ETag), ModTime: httpTime(b.Properties.LastModified)}
			if b.Name.Encoded {
				name, err := url.PathUnescape(o.Name)
				if err != nil {
					return nil, "", notEscaped(s.URL(prefix), o.Name)
				}
				o.Name = name
			}
			if b.Properties.ResourceType != "directory" {
				objects = append(objects, o)
			}
		}
		return objects, page.NextMarker, nil
	}
}
