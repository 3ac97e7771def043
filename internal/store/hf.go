package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// openHF opens hf://datasets/ORG/DATASET[@REVISION]/NAME, and looks up the commit.
func openHF(ctx context.Context, s *site, rest string, o Options) (name string, err error) {
	parts := hubURL.FindStringSubmatch(rest)
	if parts == nil {
		return "", wrongURL("hf://"+rest, "hf://datasets/ORG/DATASET/NAME")
	}
	repository, revision, name := parts[1], parts[2], parts[3]
	s.shown = "hf://" + strings.TrimSuffix(strings.TrimSuffix(rest, name), "/") + "/"
	endpoint, err := service(cmp.Or(o.Endpoint, "https://huggingface.co"))
	if err != nil {
		return "", err
	}
	if revision == "" {
		revision = "main"
	} else if revision, err = url.PathUnescape(revision); err != nil {
		return "", fmt.Errorf("hf://%s: the revision is not escaped", rest)
	}
	s.hint = "; private and gated datasets need a token (hf auth login)"
	if o.Token != "" && !o.Anonymous {
		s.signer = fixedToken(o.Token)
	}
	s.transport = (&hub{s.pool, memo[string, located]{life: locationLife, most: mostLocations}}).send
	api := endpoint.JoinPath("api", repository)
	var at struct{ SHA string }
	err = s.ask(ctx, "", api.JoinPath("revision", url.PathEscape(revision)), nil, func(r io.Reader, _ http.Header) error {
		return json.NewDecoder(r).Decode(&at)
	})
	if err != nil {
		return "", err
	}
	if !word(at.SHA, "0123456789") || at.SHA == "" {
		return "", fmt.Errorf("%s: the server does not name the commit", s.shown)
	}
	s.base.Store(endpoint.JoinPath(repository, "resolve", at.SHA+"/"))
	s.pinned, s.sorts = true, true
	s.pages = func(prefix, _ string) pager {
		return s.hubPages(prefix, api.JoinPath("tree", at.SHA, escape(prefix[:max(0, strings.LastIndex(prefix, "/"))])))
	}
	return name, nil
}

// Revisions of two kinds have slashes in their names.
var hubURL = regexp.MustCompile(`^(datasets/[^/@?#]+/[^/@?#]+)(?:@(refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(.*))?$`)

// hubPages lists the directory that contains the prefix.
func (s *site) hubPages(prefix string, tree *url.URL) pager {
	return func(ctx context.Context, token string) ([]Object, string, error) {
		query := url.Values{"recursive": {"true"}}
		if token != "" {
			query.Set("cursor", token)
		}
		type file struct {
			Type, Path, OID string
			Size            int64
			LFS             struct{ OID string }
		}
		var files []file
		var next string
		err := s.ask(ctx, prefix, tree, query, func(r io.Reader, header http.Header) error {
			files, next = nil, nextCursor(header)
			return json.NewDecoder(r).Decode(&files)
		})
		if errors.Is(err, ErrNotExist) && strings.Contains(prefix, "/") { // the directory does not exist
			return nil, "", nil
		}
		if err != nil {
			return nil, "", err
		}
		var objects []Object
		for _, f := range files {
			if f.Type == "file" && strings.HasPrefix(f.Path, prefix) {
				objects = append(objects, Object{Name: f.Path, Size: f.Size, Version: quoted(cmp.Or(f.LFS.OID, f.OID))})
			}
		}
		return objects, next, nil
	}
}

// nextCursor returns what the header Link says about the next page; "" on the last one.
func nextCursor(header http.Header) string {
	for _, link := range header.Values("Link") {
		address, relation, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		if u, err := url.Parse(address); err == nil && strings.Contains(relation, `rel="next"`) {
			return u.Query().Get("cursor")
		}
	}
	return ""
}

// A hub sends requests to Hugging Face, which redirects those for large files to a server with a
// signed URL. Hugging Face counts and limits requests, so the URL is used again for a while. The
// answer's ETag is replaced by Hugging Face's ETag for the file.
type hub struct {
	pool  *connections
	files memo[string, located] // by the path of their URL
}

// located is the temporary location of a large file.
type located struct {
	url  *url.URL
	etag string
}

const (
	locationLife  = 10 * time.Minute // of an hour that it is valid
	mostLocations = 1 << 12
)

// send is the transport.
func (h *hub) send(r *http.Request) (*http.Response, error) {
	if at, known := h.files.find(r.URL.Path); known {
		direct := r.Clone(r.Context())
		direct.URL, direct.Host = at.url, at.url.Host
		direct.Header.Del("Authorization")
		answer, err := h.pool.RoundTrip(direct)
		if err != nil {
			return nil, err
		}
		if answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden && answer.StatusCode != http.StatusNotFound {
			answer.Header.Set("Etag", at.etag)
			return answer, nil
		}
		answer.Body.Close()
		h.files.forget(r.URL.Path)
	}
	answer, err := h.pool.follow(r)
	if err != nil {
		return nil, err
	}
	etag := answer.Header.Get("X-Linked-Etag")
	for q := answer.Request; q.Response != nil; q = q.Response.Request { // back to the first answer
		etag = cmp.Or(q.Response.Header.Get("X-Linked-Etag"), etag)
	}
	linked := etag != ""
	etag = strings.TrimPrefix(cmp.Or(etag, answer.Header.Get("Etag")), "W/")
	answer.Header.Set("Etag", etag)
	if linked && answer.StatusCode/100 == 2 && answer.Request.URL.Host != r.URL.Host {
		h.files.keep(r.URL.Path, located{answer.Request.URL, etag})
	}
	return answer, nil
}
