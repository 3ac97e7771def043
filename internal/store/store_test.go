package store

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/option"
)

func TestIsURL(t *testing.T) {
	for text, want := range map[string]bool{
		"s3://b": true, "S3://b/x": true, "gs://b": true, "az://c/x": true, "hf://datasets/o/d": true, "http://h": true, "https://h/x": true,
		"": false, "/data": false, "data": false, "ftp://h": false, "s3:/b": false, "://": false, "file:///x": false,
	} {
		if IsURL(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// TestOpen: which object or prefix a URL names, how it is shown, and where requests go.
func TestOpen(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_REGION", "")
	for _, test := range []struct{ url, name, shown, request string }{
		{"s3://b/train-{000..255}.tar", "train-{000..255}.tar", "s3://b/x", "https://b.s3.us-east-1.amazonaws.com/x"},
		{"s3://b", "", "s3://b/x", "https://b.s3.us-east-1.amazonaws.com/x"},
		{"gs://b/d/", "d/", "gs://b/x", "https://storage.googleapis.com/b/x"},
		{"az://c@acc/d/*.tar", "d/*.tar", "az://c@acc/x", "https://acc.blob.core.windows.net/c/x"},
		{"az://c/d", "d", "az://c/x", "https://theirs.blob.core.windows.net/c/x"},
		{"https://u:p@h:8/d%20e/f?sig=1#x", "d e/f", "https://h:8/x", "https://h:8/x?sig=1"},
		{"HTTP://h", "", "http://h/x", "http://h/x"},
	} {
		s, name, err := Open(t.Context(), test.url, Options{Anonymous: true, Account: "theirs"})
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}
		place := s.(*site)
		if got := place.request(t.Context(), place.base.Load(), "x", nil).URL.String(); name != test.name || s.URL("x") != test.shown || got != test.request {
			t.Errorf("%s: name %q, shown %s, requested %s", test.url, name, s.URL("x"), got)
		}
		s.Close()
	}
	for _, url := range []string{"s3://", "s3:///x", "gs://", "az:///x", "az://c/x", "hf://x", "http://", "http:///x", "https://h:x/", "ftp://h/x", "data", "s3://b--use1-az4--x-s3/x"} {
		if _, _, err := Open(t.Context(), url, Options{Anonymous: true}); err == nil {
			t.Errorf("%s is opened", url)
		}
	}
	for field, o := range map[string]Options{
		"requests at once": {MaxRequests: -1}, "timeout": {Timeout: -1}, "endpoint": {Endpoint: "host:80"},
	} {
		var e *option.Error
		if _, _, err := Open(t.Context(), "gs://b/", o); !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestLatencies: percentiles are within 7 % of those of the times themselves.
func TestLatencies(t *testing.T) {
	var l latencies
	random := rand.New(rand.NewPCG(1, 2))
	times := make([]time.Duration, fullHistogram-1)
	for i := range times {
		times[i] = time.Duration(float64(time.Microsecond) * (1 + 1e6*random.Float64()*random.Float64()*random.Float64()))
		l.add(times[i])
	}
	slices.Sort(times)
	for _, p := range []int{1, 50, 90, 95, 99, 100} {
		got, want := float64(l.percentile(p)), float64(times[(len(times)*p+99)/100-1])
		if got > want*1.07 || got < want/1.07 {
			t.Errorf("%d %%: %v, not %v", p, got, want)
		}
	}
	for range 3 * fullHistogram { // old ones fade
		l.add(time.Second)
	}
	if got := l.percentile(10).Seconds(); got < 0.93 || got > 1.07 {
		t.Errorf("after many of a second: %v", got)
	}
	l.add(-1)
	l.add(1000 * time.Hour)
}

func TestSplit(t *testing.T) {
	for url, want := range map[string][2]string{
		"s3://b/a/x-{0..9}.tar":          {"s3://b/", "a/x-{0..9}.tar"},
		"s3://b":                         {"s3://b", ""},
		"az://c@account/x":               {"az://c@account/", "x"},
		"hf://datasets/o/n@main/d/x.tar": {"hf://datasets/o/n@main/", "d/x.tar"},
		"hf://models":                    {"hf://models", ""},
		"https://u:p@h:1/a%20b/x?k=/v":   {"https://u:p@h:1/?k=/v", "a b/x"},
		"https://h\x7f/x":                {"https://h\x7f/x", ""},
	} {
		if place, name := Split(url); place != want[0] || name != want[1] {
			t.Errorf("%s: %q, %q", url, place, name)
		}
	}
}
