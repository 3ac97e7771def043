package store

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A pager fetches the page of a list for a token, "" for the first page. It returns the objects on
// it and the token of the next page, "" for none.
type pager func(ctx context.Context, token string) ([]Object, string, error)

// List implements [Store].
func (s *site) List(ctx context.Context, prefix string, yield func(Object) error) error {
	if s.pages == nil {
		return &failure{url: s.URL(prefix), kind: ErrNoList}
	}
	if s.sorts {
		return s.listSorted(ctx, prefix, yield)
	}
	return s.list(ctx, prefix, s.pages(prefix, ""), s.inOrder(prefix, yield))
}

// inOrder fails if a list is not in order.
func (s *site) inOrder(prefix string, yield func(Object) error) func(Object) error {
	last := ""
	return func(o Object) error {
		if o.Name <= last && last != "" {
			return fmt.Errorf("%s: the store lists %q after %q, which is not in order", s.URL(prefix), o.Name, last)
		}
		last = o.Name
		return yield(o)
	}
}

// listSorted loads the whole list into memory before it yields any of it.
func (s *site) listSorted(ctx context.Context, prefix string, yield func(Object) error) error {
	var objects []Object
	if err := s.list(ctx, prefix, s.pages(prefix, ""), func(o Object) error { objects = append(objects, o); return nil }); err != nil {
		return err
	}
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	for _, o := range objects {
		if err := yield(o); err != nil {
			return err
		}
	}
	return nil
}

// list lists in the store's own order.
func (s *site) list(ctx context.Context, prefix string, page pager, yield func(Object) error) error {
	token, mark := "", ""
	for n := 1; ; n++ {
		objects, next, err := page(ctx, token)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if o.Size < 0 {
				return fmt.Errorf("%s: the store lists an object of %d bytes", s.URL(o.Name), o.Size)
			}
			if err := yield(o); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		if next == mark {
			return fmt.Errorf("%s: the store's list does not end: it goes on with a page that it had before", s.URL(prefix))
		}
		if n&(n-1) == 0 { // at distances that double, so that a cycle of any length is found
			mark = next
		}
		token = next
	}
}

// partsAhead is how many parts of a list are requested ahead.
const partsAhead = 64

// A listed is a part of a list, up to the first error.
type listed struct {
	objects []Object
	err     error
}

// ListAlong implements [Store].
func (s *site) ListAlong(ctx context.Context, prefix string, marks []string, yield func(Object) error) error {
	if s.pages == nil || s.sorts || len(marks) == 0 {
		return s.List(ctx, prefix, yield)
	}
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	parts := make(chan chan listed, partsAhead)
	asking.Go(func() {
		defer close(parts)
		bounds := slices.Concat([]string{""}, marks, []string{""})
		for i, to := range bounds[1:] {
			part := make(chan listed, 1)
			select {
			case parts <- part:
				asking.Go(func() { part <- s.between(ctx, prefix, bounds[i], to) })
			case <-ctx.Done():
				return
			}
		}
	})
	for part := range parts {
		p := <-part
		for _, o := range p.objects {
			if err := yield(o); err != nil {
				return err
			}
		}
		if p.err != nil {
			return p.err
		}
	}
	if ctx.Err() != nil {
		return contextError(ctx, s.URL(prefix))
	}
	return nil
}

var errPast = errors.New("past the end of a part")

// between lists the objects after a name, up to and including another; "" is no bound. It drops
// objects before the range, from stores that cannot begin after a name.
func (s *site) between(ctx context.Context, prefix, after, to string) (part listed) {
	part.err = s.list(ctx, prefix, s.pages(prefix, after), s.inOrder(prefix, func(o Object) error {
		if to != "" && o.Name > to {
			return errPast
		}
		if o.Name > after {
			part.objects = append(part.objects, o)
		}
		if o.Name == to {
			return errPast
		}
		return nil
	}))
	if part.err == errPast {
		part.err = nil
	}
	return part
}

// quoted returns an ETag in the form of headers; not all lists have that form.
func quoted(etag string) string {
	if etag == "" || strings.HasSuffix(etag, `"`) {
		return etag
	}
	return `"` + etag + `"`
}

func notEscaped(url, name string) error {
	return fmt.Errorf("%s: the store lists a name that is not escaped: %q", url, name)
}

// longestPage is more than a page of a list can have: 5,000 names of 1,024 bytes, escaped.
const longestPage = 64 << 20

// ask sends a query and decodes the answer. It asks at the base of the objects, or at another place
// of the same service.
func (s *site) ask(ctx context.Context, shown string, place *url.URL, query url.Values, decode func(io.Reader, http.Header) error) error {
	return s.do(ctx, &call{
		url: s.URL(shown), mend: s.mend,
		ask: func(ctx context.Context) (*http.Request, error) {
			if place == nil {
				return s.finish(s.request(ctx, s.base.Load(), "", query), false)
			}
			return s.finish(s.request(ctx, place, "", query), false)
		},
		use: func(answer *http.Response) error {
			if answer.StatusCode != http.StatusOK {
				f := s.judge(answer)
				if f.kind == ErrNoRange {
					f.kind = ErrNoList
				}
				return f
			}
			if err := decode(io.LimitReader(answer.Body, longestPage), answer.Header); err != nil {
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

// s3Pages lists with ListObjectsV2, which Google supports, too.
func (s *site) s3Pages(prefix, after string) pager {
	return func(ctx context.Context, token string) ([]Object, string, error) {
		query := url.Values{"list-type": {"2"}, "prefix": {prefix}, "encoding-type": {"url"}}
		if token != "" {
			query.Set("continuation-token", token)
		} else if after != "" {
			query.Set("start-after", after)
		}
		var page s3Page
		if err := s.ask(ctx, prefix, nil, query, func(r io.Reader, _ http.Header) error {
			page = s3Page{} // a failed try may have filled it in part
			return xml.NewDecoder(r).Decode(&page)
		}); err != nil {
			return nil, "", err
		}
		objects := make([]Object, len(page.Contents))
		for i, c := range page.Contents {
			if page.EncodingType == "url" {
				name, err := url.QueryUnescape(c.Key)
				if err != nil {
					return nil, "", notEscaped(s.URL(prefix), c.Key)
				}
				c.Key = name
			}
			objects[i] = Object{Name: c.Key, Size: c.Size, Version: quoted(c.ETag), ModTime: c.LastModified.Unix() * int64(time.Second)}
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
