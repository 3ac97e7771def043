package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// serverProcess runs an object store until the end of the test. It returns when it answers at the
// port.
func serverProcess(t *testing.T, port, path string, args ...string) {
	t.Helper()
	ended := testkit.StartServer(t, path, args...)
	eventually(t, path+" answers", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s has ended", path)
		default:
		}
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	check(t, err)
	return port
}

// smallClasses is a directory with a few small images in two classes, below a directory of its own.
func smallClasses(t *testing.T) (parent string) {
	t.Helper()
	parent = scratch(t)
	for i := range 11 {
		writeFile(t, filepath.Join(parent, "bucket", "photos", []string{"cats", "dogs"}[i%2], fmt.Sprintf("%d b+c.png", i)), pngFile(8+i%3, 9, byte(20*i)))
	}
	return parent
}

// sameFromStore indexes and mounts a URL, and compares all batches with those of a local folder.
func sameFromStore(t *testing.T, folder, url string, flags ...string) {
	t.Helper()
	order := strings.Fields("--shards 2 --batch-size 4 --shuffle --seed 5 --resize stretch --size 8x8 --list nhwc,labels.npy")
	want := allBatches(t, mountBatchfs(t, folder, order...), 2)
	if text, err := output(thisUser().reader(os.Getpid(), slices.Concat([]string{suite.binary, "index", url}, flags))); err != nil || !strings.Contains(text, "11 images") {
		t.Fatalf("index: %v\n%s", err, text)
	}
	m := mountBatchfs(t, url, append(order, flags...)...)
	m.sockets = true
	got := allBatches(t, m, 2)
	for path, sum := range want {
		if got[path] != sum {
			t.Errorf("%s is not the same", path)
		}
	}
	if len(got) != len(want) || len(want) < 2*2*2*2 {
		t.Errorf("%d files, and %d of the folder", len(got), len(want))
	}
}

// TestGoogleCloudStorage: batches from a server of Google's protocol are those of a folder.
func TestGoogleCloudStorage(t *testing.T) {
	skipWithoutFUSE(t)
	path, port, parent := testkit.ServerBinary(t, "fake-gcs-server"), freePort(t), smallClasses(t)
	serverProcess(t, port, path, "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-public-host", "127.0.0.1:"+port, "-backend", "memory", "-data", parent)
	sameFromStore(t, filepath.Join(parent, "bucket", "photos"), "gs://bucket/photos", "--anonymous", "--endpoint", "http://127.0.0.1:"+port)
}

// azuriteToken is a shared access signature for the account that Azurite has, whose key is public.
const azuriteToken = "sv=2020-12-06&ss=b&srt=sco&sp=rwlac&se=2199-01-01T00:00:00Z&sig=9xPCdcIJUd68wIKDfaH0kzRA72uP%2BptWpDSb1Cok9H4%3D"

// TestAzureBlobStorage: so are those from a server of Azure's.
func TestAzureBlobStorage(t *testing.T) {
	skipWithoutFUSE(t)
	path, port, parent := testkit.ServerBinary(t, "azurite/node_modules/.bin/azurite-blob"), freePort(t), smallClasses(t)
	serverProcess(t, port, path, "--blobPort", port, "--inMemoryPersistence", "--silent", "--disableTelemetry")
	endpoint := "http://127.0.0.1:" + port + "/devstoreaccount1"
	put := func(name, query string, data []byte) {
		t.Helper()
		r, err := http.NewRequest(http.MethodPut, endpoint+"/bucket"+escaped(name)+"?"+query+azuriteToken, bytes.NewReader(data))
		check(t, err)
		r.Header.Set("X-Ms-Blob-Type", "BlockBlob")
		answer, err := http.DefaultClient.Do(r)
		check(t, err)
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %s", name, answer.Status)
		}
	}
	put("", "restype=container&", nil)
	eachFile(t, filepath.Join(parent, "bucket"), func(name string, data []byte) { put("/"+name, "", data) })
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", azuriteToken)
	sameFromStore(t, filepath.Join(parent, "bucket", "photos"), "az://bucket@devstoreaccount1/photos", "--endpoint", endpoint)
}

// escaped is a path as a URL has it.
func escaped(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// eachFile calls f for every file below a directory.
func eachFile(t *testing.T, dir string, f func(name string, data []byte)) {
	t.Helper()
	check(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		f(name, data)
		return err
	}))
}

// TestHuggingFaceHub: so are those of a private dataset at a hub, which redirects reads of large
// files to signed URLs of another server, and pages its lists.
func TestHuggingFaceHub(t *testing.T) {
	skipWithoutFUSE(t)
	const commit, token = "0123456789abcdef0123456789abcdef01234567", "hf_secret"
	type file struct {
		Type string         `json:"type"`
		Path string         `json:"path"`
		OID  string         `json:"oid"`
		Size int            `json:"size"`
		LFS  map[string]any `json:"lfs,omitempty"`
	}
	contents, files := map[string][]byte{}, []file{}
	parent := smallClasses(t)
	eachFile(t, filepath.Join(parent, "bucket"), func(name string, data []byte) {
		contents[name] = data
		f := file{Type: "file", Path: name, OID: fmt.Sprintf("git%d", len(files)), Size: len(data)}
		if len(files)%2 == 1 {
			f.LFS = map[string]any{"oid": "sha" + f.OID, "size": len(data), "pointerSize": 100}
		}
		files = append(files, f)
	})
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if r.URL.RawQuery != "signature=1" || r.Header.Get("Authorization") != "" {
			t.Errorf("the server of large files is asked with %v", r.Header)
		}
		w.Header().Set("ETag", `"of the CDN"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(contents[name]))
	}))
	defer cdn.Close()
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/api/datasets/org/d/revision/main" {
			fmt.Fprintf(w, `{"sha":%q}`, commit)
			return
		}
		if strings.TrimSuffix(r.URL.Path, "/photos") == "/api/datasets/org/d/tree/"+commit {
			page := files[:5]
			if r.URL.Query().Get("cursor") == "rest" {
				page = files[5:]
			} else {
				w.Header().Set("Link", "<http://"+r.Host+r.URL.Path+`?recursive=true&cursor=rest>; rel="next"`)
			}
			_ = json.NewEncoder(w).Encode(page)
			return
		}
		name, _ := strings.CutPrefix(r.URL.Path, "/datasets/org/d/resolve/"+commit+"/")
		i := slices.IndexFunc(files, func(f file) bool { return f.Path == name })
		switch {
		case i < 0:
			w.WriteHeader(http.StatusNotFound)
		case files[i].LFS != nil:
			w.Header().Set("X-Linked-Etag", fmt.Sprintf("%q", files[i].LFS["oid"]))
			http.Redirect(w, r, cdn.URL+"/"+escaped(name)+"?signature=1", http.StatusFound)
		default:
			w.Header().Set("ETag", fmt.Sprintf("%q", files[i].OID))
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(contents[name]))
		}
	}))
	defer hub.Close()
	t.Setenv("HF_TOKEN", token)
	sameFromStore(t, filepath.Join(parent, "bucket", "photos"), "hf://datasets/org/d/photos", "--endpoint", hub.URL)
}
