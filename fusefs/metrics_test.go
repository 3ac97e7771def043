package fusefs

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/engine"
	jpegs "github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/internal/tier"
)

// TestMetricsFormat checks the text against Prometheus's grammar: HELP and TYPE before the
// samples of each family, each family once, each sample once.
func TestMetricsFormat(t *testing.T) {
	s := Stats{ReadPath: `odd "path"`}
	s.Uptime, s.Epochs = 1.25, []engine.EpochStats{{Epoch: 3, Batches: 7}, {Epoch: 4}}
	s.Memory.Limit = 1 << 40
	s.JPEGs = engine.JPEGStats{
		JPEGs:   decode.JPEGs{Baseline: 11, Kind: 1, Sampling: 2, Header: 4, Data: 5},
		Entries: jpegs.EntryCounts{Used: 6, Made: 7, None: 8, Wrong: 9},
	}
	text := string(metrics(s, 2))
	sample := regexp.MustCompile(`^(batchfs_[a-z_]+)(\{[a-z_]+="(?:[^"\\]|\\.)*"\})? (-?[0-9.e+]+)$`)
	families, samples := map[string]string{}, map[string]bool{}
	family, kind := "", ""
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			family, _, _ = strings.Cut(rest, " ")
			if _, twice := families[family]; twice {
				t.Errorf("family %s twice", family)
			}
			families[family], kind = "", ""
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "+family+" "); ok {
			families[family], kind = rest, rest
			if (rest == "counter") != strings.HasSuffix(family, "_total") || rest != "counter" && rest != "gauge" {
				t.Errorf("%s is a %s", family, rest)
			}
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil || m[1] != family || kind == "" {
			t.Errorf("line %q in family %s", line, family)
			continue
		}
		if samples[m[1]+m[2]] {
			t.Errorf("sample %s%s twice", m[1], m[2])
		}
		samples[m[1]+m[2]] = true
	}
	for _, want := range []string{
		`batchfs_info{read_path="odd \"path\""} 1`, "batchfs_uptime_seconds 1.25", "batchfs_memory_limit_bytes 1.099511627776e+12",
		`batchfs_epoch_batches_total{epoch="3"} 7`, "batchfs_passthrough_refused_total 2",
		"batchfs_jpegs_total 23", `batchfs_jpegs_left_total{reason="kind"} 1`, `batchfs_jpegs_left_total{reason="sampling"} 2`,
		`batchfs_jpegs_left_total{reason="header"} 4`, `batchfs_jpegs_left_total{reason="data"} 5`,
		`batchfs_jpeg_entry_points_total{result="used"} 6`, `batchfs_jpeg_entry_points_total{result="made"} 7`,
		`batchfs_jpeg_entry_points_total{result="none"} 8`, `batchfs_jpeg_entry_points_total{result="wrong"} 9`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
}

// TestStatisticsAreDocumented: the document about files has a row for every object of stats.json,
// with all its keys, and every metric.
func TestStatisticsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/files.md")
	testkit.Must(t, err)
	_, table, _ := strings.Cut(string(text), "\n## Statistics\n")
	row := func(object string) string {
		for line := range strings.Lines(table) {
			if cells := strings.Split(line, "|"); len(cells) == 5 && (strings.Contains(cells[1], "`"+object+"`") || object == "" && strings.Contains(cells[1], "the document")) {
				return cells[2]
			}
		}
		return ""
	}
	var visit func(object string, of reflect.Type)
	visit = func(object string, of reflect.Type) {
		for _, field := range reflect.VisibleFields(of) {
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if key == "" || key == "-" {
				continue
			}
			path, inner := strings.TrimPrefix(object+"."+key, "."), field.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				visit(path, inner)
			}
			if !strings.Contains(row(object), "`"+key+"`") && row(path) == "" {
				t.Errorf("docs/files.md says nothing of %s in stats.json", path)
			}
		}
	}
	visit("", reflect.TypeFor[Stats]())
	s := Stats{}
	s.GPU, s.Storage.Store, s.Storage.Local = new(engine.GPUStats), new(store.Stats), new(tier.Stats)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE batchfs_(\w+)`).FindAllStringSubmatch(string(metrics(s, 0)), -1) {
		if !strings.Contains(table, "`"+m[1]+"`") {
			t.Errorf("docs/files.md says nothing of batchfs_%s in metrics", m[1])
		}
	}
}
