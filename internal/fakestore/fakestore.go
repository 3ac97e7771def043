// Package fakestore is an S3-compatible object store for tests and benchmarks, with a directory for
// each bucket and no credentials. It supports listing, ranges, and If-Match.
package fakestore

import (
	"cmp"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Server serves the directories below Dir.
type Server struct {
	Dir string
	// Before, if not nil, is called for each request; true means that it has answered.
	Before func(w http.ResponseWriter, r *http.Request) bool
	// PerPage is the number of objects per page of a listing; 0: so few that tests see several
	// pages.
	PerPage int

	Requests atomic.Int64 // so far

	mu   sync.Mutex
	tags map[string]string // of contents, by path, size and time
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Requests.Add(1)
	if s.Before != nil && s.Before(w, r) {
		return
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if key == "" {
		s.list(w, r, bucket)
		return
	}
	path := filepath.Join(s.Dir, bucket, filepath.FromSlash(key))
	f, err := os.Open(path)
	if err != nil {
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("ETag", s.tag(path, info))
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", info.ModTime(), f)
}

func fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
}

// tag is the ETag of a file's contents.
func (s *Server) tag(path string, info fs.FileInfo) string {
	key := fmt.Sprint(path, info.Size(), info.ModTime().UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	if tag := s.tags[key]; tag != "" {
		return tag
	}
	data, _ := os.ReadFile(path)
	if s.tags == nil {
		s.tags = map[string]string{}
	}
	s.tags[key] = fmt.Sprintf(`"%x"`, sha256.Sum256(data))[:34] + `"`
	return s.tags[key]
}

type listing struct {
	XMLName     xml.Name `xml:"ListBucketResult"`
	IsTruncated bool
	Next        string   `xml:"NextContinuationToken,omitempty"`
	Contents    []entry  `xml:"Contents"`
	Folders     []folder `xml:"CommonPrefixes"`
}

type folder struct{ Prefix string }

type entry struct {
	Key, LastModified, ETag string
	Size                    int64
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, bucket string) {
	root, query := filepath.Join(s.Dir, bucket), r.URL.Query()
	prefix, delimiter := query.Get("prefix"), query.Get("delimiter")
	var keys []string // including names that end in the delimiter
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		key, _ := filepath.Rel(root, path)
		if err != nil || d.IsDir() || !strings.HasPrefix(key, prefix) || key <= query.Get("start-after") {
			return nil
		}
		if before, _, below := strings.Cut(key[len(prefix):], delimiter); below && delimiter != "" {
			key = prefix + before + delimiter
		}
		if key > query.Get("continuation-token") {
			keys = append(keys, key)
		}
		return nil
	})
	slices.Sort(keys)
	keys = slices.Compact(keys)
	perPage := cmp.Or(s.PerPage, 100)
	out := listing{IsTruncated: len(keys) > perPage}
	if out.IsTruncated {
		keys = keys[:perPage]
		out.Next = keys[perPage-1]
	}
	for _, key := range keys {
		if delimiter != "" && strings.HasSuffix(key, delimiter) {
			out.Folders = append(out.Folders, folder{key})
			continue
		}
		path := filepath.Join(root, key)
		if info, err := os.Stat(path); err == nil {
			out.Contents = append(out.Contents, entry{key, info.ModTime().UTC().Format(time.RFC3339), s.tag(path, info), info.Size()})
		}
	}
	_ = xml.NewEncoder(w).Encode(out)
}
