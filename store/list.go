package store

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// A pager asks for the page of a list that a token stands for, "" for the first one, and
// returns the objects on it and the token of the next, "" if there is none.
type pager func(ctx context.Context, token string) ([]Object, string, error)

// List implements [Store].
func (s *site) List(ctx context.Context, prefix string, yield func(Object) error) error {
	if s.pages == nil {
		return &failure{url: s.URL(prefix), kind: ErrNoList}
	}
	page, last := s.pages(prefix), ""
	for token := ""; ; {
		objects, next, err := page(ctx, token)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if o.Name <= last && last != "" {
				return fmt.Errorf("%s: the store lists %q after %q, which is not in order", s.URL(prefix), o.Name, last)
			}
			last = o.Name
			if err := yield(o); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		if next == token {
			return fmt.Errorf("%s: the store's list does not end", s.URL(prefix))
		}
		token = next
	}
}

// longestPage is more than a page of a list can have: 5,000 names of 1,024 bytes, escaped.
const longestPage = 64 << 20

// ask has the answer to a question about the place decoded.
func (s *site) ask(ctx context.Context, shown string, query url.Values, decode func(io.Reader) error) error {
	return s.do(ctx, &call{
		url: s.URL(shown), mend: s.mend,
		ask: func(ctx context.Context) (*http.Request, error) { return s.finish(s.request(ctx, "", query)) },
		use: func(answer *http.Response) error {
			if answer.StatusCode != http.StatusOK {
				return s.judge(answer)
			}
			if err := decode(io.LimitReader(answer.Body, longestPage)); err != nil {
				return &failure{kind: ErrNoList, why: "its answer is not a list: " + clean(err.Error())}
			}
			return nil
		},
	})
}

// An s3Page is an answer to ListObjectsV2.
type s3Page struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	EncodingType          string
	IsTruncated           bool
	NextContinuationToken string
	Contents              []struct {
		Key          string
		LastModified time.Time
		ETag         string
		Size         int64
	}
}

// s3Pages lists with ListObjectsV2, which Google has, too.
func (s *site) s3Pages(prefix string) pager {
	return func(ctx context.Context, token string) ([]Object, string, error) {
		query := url.Values{"list-type": {"2"}, "prefix": {prefix}, "encoding-type": {"url"}}
		if token != "" {
			query.Set("continuation-token", token)
		}
		var page s3Page
		if err := s.ask(ctx, prefix, query, func(r io.Reader) error {
			page = s3Page{} // of a try that was cut off
			return xml.NewDecoder(r).Decode(&page)
		}); err != nil {
			return nil, "", err
		}
		objects := make([]Object, len(page.Contents))
		for i, c := range page.Contents {
			if page.EncodingType == "url" {
				name, err := url.QueryUnescape(c.Key)
				if err != nil {
					return nil, "", fmt.Errorf("%s: the store lists a name that is not escaped: %q", s.URL(prefix), c.Key)
				}
				c.Key = name
			}
			objects[i] = Object{Name: c.Key, Size: c.Size, Version: c.ETag, ModTime: c.LastModified.Unix() * int64(time.Second)}
		}
		if !page.IsTruncated {
			return objects, "", nil
		}
		if page.NextContinuationToken == "" {
			return nil, "", errors.New(s.URL(prefix) + ": the store cuts its list off without saying how it goes on")
		}
		return objects, page.NextContinuationToken, nil
	}
}
