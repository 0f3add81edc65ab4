package policy

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// answers are URLs of class A, by the entry that finds them.
var answers = []struct{ id, url string }{
	{"A01", "https://huggingface.co/datasets/gaia-benchmark/GAIA"},
	{"A01", "https://huggingface.co/datasets/gaia-benchmark/GAIA/resolve/main/2023/validation/metadata.jsonl"},
	{"A01", "https://huggingface.co/api/datasets/gaia-benchmark/GAIA/tree/main"},
	{"A01", "https://hub.mirror.example/datasets/gaia-benchmark/GAIA/blob/main/README.md"},
	{"A01", "hf://datasets/gaia-benchmark/GAIA/2023/validation/metadata.parquet"},
	{"A01", "hf://datasets/gaia-benchmark"},
	{"A01", "git@hf.co:datasets/gaia-benchmark/GAIA"},
	{"A02", "https://github.com/someone/agents/tree/main/datasets--gaia-benchmark--GAIA/snapshots/0/2023"},
	{"A03", "https://datasets-server.huggingface.co/rows?dataset=gaia-benchmark/GAIA&config=2023_all&split=validation"},
	{"A03", "https://datasets-server.huggingface.co/parquet?config=2023_all&dataset=gaia-benchmark%2FGAIA"},
	{"A04", "https://files.example/copy/2023/validation/metadata.jsonl"},
	{"A04", "https://files.example/copy/2023/test/metadata.level2.parquet?download=true"},
	{"A04", "https://files.example/2023/validation/metadata.csv#top"},
	{"A05", "https://huggingface.co/datasets/smolagents/GAIA-annotated"},
	{"A05", "https://huggingface.co/datasets/m-ric/agents_medium_benchmark_2/viewer"},
	{"A05", "https://huggingface.co/datasets/miromind-ai/MiroFlow-Benchmarks/resolve/main/gaia-val.zip"},
	{"A05", "https://huggingface.co/spaces/bstraehle/gaia/resolve/main/files/gaia_validation.jsonl"},
	{"A05", "https://datasets-server.huggingface.co/first-rows?dataset=smolagents%2Fgaia-traces"},
	{"A06", "https://github.com/someone/agents/blob/main/data/gaia/validation.jsonl"},
	{"A06", "https://raw.githubusercontent.com/someone/GAIA/main/val.json"},
	{"A06", "https://cdn.jsdelivr.net/gh/someone/gaia@main/data/dev.csv"},
	{"A06", "https://files.example/gaia/answers.json"},
	{"A06", "https://files.example/gaia/ground_truth.csv.gz"},
	{"A06", "https://files.example/gaia/ground%20truth.xlsx"},
	{"A06", "https://files.example/gaia-benchmark/level1/gold_answers.parquet"},
	{"A06", "https://files.example/gaia/annotated_questions.jsonl"},
	{"A06", "https://files.example/gaia/validation-00000-of-00001-9f3ac2d1e0.parquet"},
	{"A06", "https://files.example/gaia/metadata.level3.jsonl"},
	{"A06", "https://files.example/gaia/gaia_validation_set.tsv"},
	{"A06", "https://files.example/gaia/metadata.jsonl"},
	{"A06", "https://files.example/gaia/validation/metadata.csv"},
	{"A06", "https://files.example/gaia/level2/metadata.csv"},
	{"A06", "https://github.com/someone/agents/blob/main/gaia/outputs/metadata.json"},
	{"A06", "https://files.example/eval/gaia/2023/metadata.json"},
	{"A06", "https://files.example/gaia/dr3/answers.json"},
	{"A06", "https://files.example/gaia/dr3/gaia/validation.jsonl"},
	{"A06", "https://files.example/benchmarks/gaia/metadata.csv"},
}

func TestDenylist(t *testing.T) {
	seen := map[string]bool{}
	for _, tc := range answers {
		if id, class := builtin().classify(tc.url, false); class != ClassA || id != tc.id {
			t.Errorf("%s: entry %q, class %q, want %s", tc.url, id, class, tc.id)
		}
		seen[tc.id] = true
	}
	for _, e := range builtin().Entries {
		if e.Class == ClassA && !seen[e.ID] {
			t.Errorf("entry %s has no URL that fires it", e.ID)
		}
	}
}

// disguises are what is done to a URL to get the same page past a list.
var disguises = map[string]func(string) string{
	"upper case":        strings.ToUpper,
	"encoded once":      func(u string) string { return percentEncode(u) },
	"encoded twice":     func(u string) string { return percentEncode(percentEncode(u)) },
	"encoded thrice":    func(u string) string { return percentEncode(percentEncode(percentEncode(u))) },
	"archive":           func(u string) string { return "https://web.archive.org/web/2024/" + u },
	"archive, raw":      func(u string) string { return "https://web.archive.org/web/20240101000000id_/" + u },
	"archive.today":     func(u string) string { return "https://archive.ph/newest/" + u },
	"reader":            func(u string) string { return "https://r.jina.ai/" + u },
	"reader, no scheme": func(u string) string { return "https://r.jina.ai/" + afterScheme(u) },
	"proxy query":       func(u string) string { return "https://proxy.example/fetch?u=" + url.QueryEscape(u) + "&x=1" },
	"proxy query twice": func(u string) string { return "https://proxy.example/?u=" + url.QueryEscape(url.QueryEscape(u)) },
	"search cache":      func(u string) string { return "https://webcache.example/search?q=cache:" + afterScheme(u) },
	"translator":        func(u string) string { return translated(u) },
	"translator page": func(u string) string {
		return "https://translate.google.com/translate?sl=en&tl=de&u=" + url.QueryEscape(u)
	},
	"trailing dot": func(u string) string { return atHost(u, func(h string) string { return h + "." }) },
	"port":         func(u string) string { return atHost(u, func(h string) string { return h + ":443" }) },
	"userinfo":     func(u string) string { return atHost(u, func(h string) string { return "esa.int:x@" + h }) },
	"double slashes": func(u string) string {
		return atPath(u, func(p string) string { return strings.ReplaceAll(p, "/", "//") })
	},
	"backslashes": func(u string) string {
		return atPath(u, func(p string) string { return strings.ReplaceAll(p, "/", `\`) })
	},
	"dots": func(u string) string {
		return atPath(u, func(p string) string { return strings.ReplaceAll(p, "/", "/./") })
	},
	"up and down": func(u string) string {
		return atPath(u, func(p string) string { return strings.ReplaceAll(p, "/", "/x/../") })
	},
	"encoded dots": func(u string) string {
		return atPath(u, func(p string) string { return strings.ReplaceAll(p, "/", "/x/%2e%2e/") })
	},
	"line end inside":  func(u string) string { return strings.Replace(u, "ai", "a\n\ti", 1) },
	"full width":       func(u string) string { return strings.Replace(u, "a", "ａ", 2) },
	"query and anchor": func(u string) string { return u + "?download=true#L1" },
	"spaces around":    func(u string) string { return "  " + u + " \n" },
	"base64": func(u string) string {
		return "https://proxy.example/?u=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(u)))
	},
	"base64 for addresses, unpadded": func(u string) string {
		return "https://proxy.example/get?x=1&u=" + base64.RawURLEncoding.EncodeToString([]byte(u))
	},
	"base64 in the path": func(u string) string {
		return "https://proxy.example/p/" + base64.RawURLEncoding.EncodeToString([]byte(u)) + "/page"
	},
	"base64 of the address encoded once": func(u string) string {
		return "https://proxy.example/p/" + base64.RawURLEncoding.EncodeToString([]byte(percentEncode(u)))
	},
	"base64 twice": func(u string) string {
		return "https://proxy.example/p/" + base64.RawURLEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(u))))
	},
	"base64 in brackets of JSON": func(u string) string {
		return "https://proxy.example/p/" + base64.StdEncoding.EncodeToString([]byte(`{"target":"`+u+`"}`))
	},
	"hex": func(u string) string { return "https://proxy.example/" + hex.EncodeToString([]byte(u)) },
	"hex in capitals": func(u string) string {
		return "https://proxy.example/?h=" + strings.ToUpper(hex.EncodeToString([]byte(u)))
	},
}

func percentEncode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

func afterScheme(u string) string {
	_, rest, _ := strings.Cut(u, "://")
	return rest
}

func atHost(u string, f func(string) string) string {
	scheme, rest, _ := strings.Cut(u, "://")
	host, path, _ := strings.Cut(rest, "/")
	return scheme + "://" + f(host) + "/" + path
}

func atPath(u string, f func(string) string) string {
	scheme, rest, _ := strings.Cut(u, "://")
	host, path, _ := strings.Cut(rest, "/")
	return scheme + "://" + host + f("/"+path)
}

func translated(u string) string {
	return atHost(u, func(h string) string {
		return strings.ReplaceAll(strings.ReplaceAll(h, "-", "--"), ".", "-") + ".translate.goog"
	})
}

func TestDisguises(t *testing.T) {
	for name, disguise := range disguises {
		t.Run(name, func(t *testing.T) {
			for _, tc := range answers {
				if !strings.Contains(tc.url, "://") || strings.HasPrefix(tc.url, "hf://datasets/gaia-benchmark") {
					continue // no host to play with
				}
				if name == "encoded thrice" && strings.Contains(tc.url, "%") {
					continue // that would be four times
				}
				if u := disguise(tc.url); Classify(u) != ClassA {
					t.Errorf("%s\n  as %s: class %q", tc.url, u, Classify(u))
				}
			}
		})
	}
}

func TestClassB(t *testing.T) {
	seen := map[string]bool{}
	for _, tc := range []struct{ id, url string }{
		{"B01", "https://huggingface.co/gaia-benchmark"},
		{"B01", "https://huggingface.co/spaces/gaia-benchmark/leaderboard"},
		{"B01", "https://hf.mirror.example/spaces/someone/my-gaia-agent"},
		{"B01", "https://www.github.com:443/someone/gaia_agent/issues/1"},
		{"B01", "https://api.github.com/repos/someone/GAIA"},
		{"B01", "https://github-com.translate.goog/someone/gaia-agent?_x_tr_sl=en"},
		{"B01", "https://web.archive.org/web/2024/https://github.com/someone/gaia"},
		{"B02", "https://someone-gaia-agent.hf.space/"},
		{"B03", "https://agents-course-unit4-scoring.hf.space/questions"},
		{"B03", "https://huggingface.co/spaces/agents-course/Final_Assignment_Template"},
		{"B03", "https://huggingface.co/datasets/agents-course/unit4-students-scores"},
		{"B04", "https://arxiv.org/abs/2311.12983"},
		{"B04", "https://arxiv.org/pdf/2311.12983v1.pdf"},
		{"B04", "https://openreview.net/forum?id=fibxvahvs3"},
		{"B04", "https://ai.example/research/publications/gaia-a-benchmark-for-general-ai-assistants/"},
		{"B05", "https://files.example/data/gaia_validation.jsonl"},
		{"B05", "https://files.example/data/gaia-val.zip"},
		{"B06", "https://winery.example/gaia/vintages/metadata.json"},
		{"B06", "https://winery.example/gaia/metadata.json"},
		{"B06", "https://www.astro.example/gaia/validation.csv"},
		{"B06", "https://observatory.example/gaia/metadata.csv"},
		{"B06", "https://files.example/gaia/vessels/validation.csv"},
	} {
		seen[tc.id] = true
		if id, class := builtin().classify(tc.url, false); class != ClassB || id != tc.id {
			t.Errorf("%s: entry %q, class %q, want %s", tc.url, id, class, tc.id)
		}
		if d := Decide(free, Call{Tool: "web_fetch", Known: true, URLs: []string{tc.url}}); d.Verdict != Allow || len(d.RuleIDs) != 0 {
			t.Errorf("%s: class B is refused: %+v", tc.url, d)
		}
	}
	for _, e := range builtin().Entries {
		if e.Class == ClassB && !seen[e.ID] {
			t.Errorf("entry %s has no URL that fires it", e.ID)
		}
	}
}

// Pages that honest work visits.
func TestHonestPages(t *testing.T) {
	for _, u := range []string{
		"",
		"https://www.esa.int/Science_Exploration/Space_Science/Gaia",
		"https://www.cosmos.esa.int/web/gaia/data-release-3",
		"https://gea.esac.esa.int/archive/documentation/GDR3/index.html",
		"https://cdn.gea.esac.esa.int/Gaia/gdr3/gaia_source/GaiaSource_000000-003111.csv.gz",
		"https://cdn.gea.esac.esa.int/Gaia/gdr3/metadata.csv",
		"https://gea.esac.esa.int./Gaia/validation.csv",
		"https://en.wikipedia.org/wiki/Gaia_(spacecraft)",
		"https://en.wikipedia.org/wiki/Gaia",
		"https://gaia-x.eu/what-is-gaia-x/",
		"https://gitlab.com/gaia-x/technical-committee/metadata.json",
		"https://github.com/GAIA-X4PLC-AAD/portal/blob/main/README.md",
		"https://astroquery.readthedocs.io/en/latest/gaia/gaia.html",
		"https://docs.astropy.org/en/stable/api/astropy.coordinates.html",
		"https://github.com/astropy/astroquery/tree/main/astroquery/gaia/tests/data",
		"https://raw.githubusercontent.com/cosmos/gaia/main/metadata.json",
		"https://github.com/cosmos/gaia",
		"https://pypi.org/project/gaia/",
		"https://docs.example/gaia/requirements/dev.txt",
		"https://docs.example/gaia/.github/workflows/validation.yml",
		"https://docs.example/gaia/metadata_schema.json",
		"https://docs.example/gaia/validate.json",
		"https://docs.example/gaia/devices.json",
		"https://docs.example/gaia/goldfish.csv",
		"https://docs.example/gaia/data.json",
		"https://docs.example/gaia/index.html",
		"https://museum.example/collections/2023/metadata.jsonl",
		"https://museum.example/open-data/metadata.jsonl",
		"https://museum.example/2023/test/metadata.html",
		"https://museum.example/2023/tests/metadata.jsonl",
		"https://huggingface.co/openai/whisper-large-v3",
		"https://huggingface.co/datasets/mozilla-foundation/common_voice_17_0",
		"https://huggingface.co/datasets/squad/resolve/main/validation.jsonl",
		"https://huggingface.co/docs/datasets/loading",
		"https://datasets-server.huggingface.co/rows?dataset=rajpurkar/squad&split=validation",
		"https://github.com/numpy/numpy/issues/11034",
		"https://arxiv.org/abs/2311.12984",
		"https://www.britannica.com/topic/Gaea",
		"https://web.archive.org/web/2024/https://www.esa.int/gaia",
		"https://search.example/search?q=supreme+court+judge+cache+county+witness",
		"https://search.example/search?q=gaia+mission+metadata",
		"https://proxy.example/?u=aHR0cHM6Ly9lbi53aWtpcGVkaWEub3JnL3dpa2kvR2FpYQ",
		"https://cdn.example/assets/9f3ac2d1e09f3ac2d1e09f3ac2d1e09f3ac2d1e0/main.css",
		"https://archive.observatory.example/gaia/dr3/metadata.csv",
		"https://cdn.example/gaia/gdr3/validation/part-0001.csv",
		"https://cdn.example/Gaia/gdr3/validation/metadata.csv",
		"https://cdn.example/gaia/gedr3/auxiliary/validation.parquet",
		"https://files.example/gaia/dr2/gaia_source/metadata.jsonl",
		"https://data.example/surveys/gaia/edr3/dev.csv",
		"https://files.example/gaia-dr3/metadata.csv",
		"https://github.com/someone/stars/blob/main/data/gaia/dr3/metadata.csv",
		"https://mirror.example/astronomy/gaia/catalogue/metadata.csv.gz",
	} {
		if id, class := builtin().classify(u, false); class != ClassNone {
			t.Errorf("%s: entry %s, class %s", u, id, class)
		}
	}
}

// An honest host counts only as the URL's own, and never for the benchmark's own places.
func TestHonestyCannotBeBorrowed(t *testing.T) {
	for _, u := range []string{
		"https://esa.int@files.example/gaia/validation.jsonl",
		"https://files.example/esa.int/gaia/validation.jsonl",
		"https://notesa.int/gaia/validation.jsonl",
		"https://esa.int.files.example/gaia/validation.jsonl",
		"https://files.example\\@esa.int/gaia/validation.jsonl",
		"https://web.archive.org/web/2024/https://esa.int@files.example/gaia/answers.json",
		"https://files.example/gaia/validation.jsonl?x=cosmos/gaia",
		"https://files.example/cosmos/gaia/../../gaia/validation.jsonl",
		"https://esa.int/go?to=https://huggingface.co/datasets/gaia-benchmark/GAIA",
	} {
		if Classify(u) != ClassA {
			t.Errorf("%s: class %q", u, Classify(u))
		}
	}
}

func TestDenylistDigest(t *testing.T) {
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(denylistFile)); DenylistDigest() != want {
		t.Errorf("digest %q, want %q", DenylistDigest(), want)
	}
}

func TestParseDenylistRefuses(t *testing.T) {
	list := func(entries string) string { return `{"version":"1","entries":[` + entries + `]}` }
	good := `{"id":"A1","class":"A","title":"","match":[["a"]]}`
	if _, err := parseDenylist([]byte(list(good))); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"unknown member":     `{"version":"1","extra":1,"entries":[` + good + `]}`,
		"no version":         `{"entries":[` + good + `]}`,
		"no entries":         list(``),
		"id twice":           list(good + `,` + good),
		"ids not in order":   list(strings.Replace(good, "A1", "A2", 1) + `,` + good),
		"unknown class":      list(`{"id":"C1","class":"C","title":"","match":[["a"]]}`),
		"id of another":      list(`{"id":"B1","class":"A","title":"","match":[["a"]]}`),
		"no patterns":        list(`{"id":"A1","class":"A","title":"","match":[]}`),
		"empty sequence":     list(`{"id":"A1","class":"A","title":"","match":[[]]}`),
		"empty pattern":      list(`{"id":"A1","class":"A","title":"","match":[[""]]}`),
		"only a star":        list(`{"id":"A1","class":"A","title":"","match":[["*"]]}`),
		"star within":        list(`{"id":"A1","class":"A","title":"","match":[["a*b"]]}`),
		"upper case":         list(`{"id":"A1","class":"A","title":"","match":[["Gaia"]]}`),
		"separator inside":   list(`{"id":"A1","class":"A","title":"","match":[["a/b"]]}`),
		"unknown words":      list(`{"id":"A1","class":"A","title":"","match":[["<anything>"]]}`),
		"bad then":           list(`{"id":"A1","class":"A","title":"","match":[["a"]],"then":"*"}`),
		"negative distance":  list(`{"id":"A1","class":"A","title":"","match":[["a"]],"within":-1}`),
		"bad honest pattern": `{"version":"1","honest":[["A"]],"entries":[` + good + `]}`,
	} {
		if _, err := parseDenylist([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "reading denylist: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A quarter of a megabyte of what is expensive to read, in the thorough run a whole one: with more than linear work
// this would not end.
func TestLongInput(t *testing.T) {
	long.NotRaced(t)
	size := 1 << 18
	if long.Thorough() {
		size = 1 << 20
	}
	for _, piece := range []string{"gaia/", "cosmos/gaia/", "%2525252f", "../", "\u0301"} {
		text := strings.Repeat(piece, size/len(piece))
		Decide(free, Call{Tool: "t", Known: true, URLs: []string{"https://x/" + text}, Texts: []string{text}})
	}
}

func BenchmarkClassify(b *testing.B) {
	for b.Loop() {
		Classify("https://en.wikipedia.org/wiki/List_of_museums_in_the_north?action=raw&section=3")
	}
}

func FuzzClassify(f *testing.F) {
	for _, tc := range answers {
		f.Add(tc.url)
		f.Add(percentEncode(tc.url))
	}
	f.Add("https://esa.int/%2e%2e/../gaia/%zz/%")
	f.Fuzz(func(t *testing.T, s string) {
		class := Classify(s)
		if class != ClassNone && class != ClassA && class != ClassB {
			t.Fatalf("class %q", class)
		}
		// What is refused stays refused behind a reader, and asking twice gives the same.
		if class == ClassA && Classify("https://r.jina.ai/"+s) != ClassA {
			t.Errorf("%q is hidden by a prefix", s)
		}
		if class != Classify(s) {
			t.Errorf("%q changes its class", s)
		}
	})
}
