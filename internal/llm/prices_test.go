package llm

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestBuiltinPrices(t *testing.T) {
	p := BuiltinPrices()
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(builtinPrices)); p.Digest() != want {
		t.Errorf("digest %q, want %q", p.Digest(), want)
	}
	if _, err := time.Parse(time.DateOnly, p.Version()); err != nil {
		t.Errorf("the version is no day: %v", err)
	}
	if !p.Lookup("gpt-4o") || p.Lookup("GPT-4o") || p.Lookup("gpt-4o-2024-08-06") || p.Lookup("") {
		t.Error("names must match exactly")
	}
	for name, m := range p.models {
		if m.Audio == nil && (*m.Input == 0 || *m.CachedInput > *m.Input || *m.Output < *m.Input) {
			t.Errorf("%s has unlikely prices: %d, %d, %d", name, *m.Input, *m.CachedInput, *m.Output)
		}
	}
}

func TestParsePricesRefuses(t *testing.T) {
	const model = `{"input_microusd_per_mtok":1,"cached_input_microusd_per_mtok":1,"output_microusd_per_mtok":1}`
	table := func(models string) string { return `{"version":"1","note":"","models":` + models + `}` }
	if _, err := ParsePrices([]byte(table(`{"m":` + model + `}`))); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, in, want string }{
		{"empty", ``, `line 1: the table is not JSON`},
		{"not an object", `[]`, `line 1: the table is not of the form that docs/formats.md states`},
		{"cut off", table("{"), `line 1: the table is not JSON`},
		{"on a later line", "{\"version\":\"1\",\n\"note\":\"\",\n\"models\":[]}", `line 3: "/models" is not of the form that docs/formats.md states`},
		{"unknown member", `{"version":"1","note":"","currency":"USD","models":{"m":` + model + `}}`, `line 1: "/currency" is an unknown member`},
		{"unknown price", table(`{"m":{"image":1,` + model[1:] + `}`), `line 1: "/models/m/image" is an unknown member`},
		{"other case", table(`{"m":` + strings.Replace(model, "output", "Output", 1) + `}`), `line 1: "/models/m/Output_microusd_per_mtok" is an unknown member`},
		{"model twice", table(`{"m":` + model + `,"m":` + model + `}`), `line 1: "/models/m" is there twice`},
		{"price twice", table(`{"m":{"output_microusd_per_mtok":1,` + model[1:] + `}`), `line 1: "/models/m/output_microusd_per_mtok" is there twice`},
		{"text after the end", table(`{"m":`+model+`}`) + `{}`, `line 1: the table is not JSON`},
		{"no version", `{"note":"","models":{"m":` + model + `}}`, `"version" is missing or empty`},
		{"no note", `{"version":"1","models":{"m":` + model + `}}`, `"note" is missing`},
		{"no models", table(`{}`), `"models" is missing or empty`},
		{"no name", table(`{"":` + model + `}`), "a model has no name"},
		{"missing price", table(`{"m":{"input_microusd_per_mtok":1,"output_microusd_per_mtok":1}}`), `model "m" lacks one of its three prices`},
		{"null price", table(`{"m":` + strings.Replace(model, "1", "null", 1) + `}`), `model "m" lacks one of its three prices`},
		{"of several models the first by name", table(`{"z":{},"b":{},"y":{},"c":{},"a":{},"x":{}}`), `model "a" lacks one of its three prices`},
		{"both kinds", table(`{"m":{"audio_microusd_per_minute":1,` + model[1:] + `}`), `model "m" has prices of tokens and a price of minutes`},
		{"parts of both kinds", table(`{"m":{"audio_microusd_per_minute":1,"output_microusd_per_mtok":1}}`), `model "m" has prices of tokens and a price of minutes`},
		{"absurd price of the cache", table(`{"m":{"cache_write_1h_microusd_per_mtok":1000000000001,` + model[1:] + `}`), `model "m" has a price outside 0 to 1000000000000 micro-USD per million tokens`},
		{"minutes, and a price of the cache", table(`{"m":{"audio_microusd_per_minute":1,"cache_write_microusd_per_mtok":1}}`), `model "m" has prices of tokens and a price of minutes`},
		{"null minutes", table(`{"m":{"audio_microusd_per_minute":null}}`), `model "m" lacks one of its three prices`},
		{"negative minutes", table(`{"m":{"audio_microusd_per_minute":-1}}`), `model "m" has a price outside 0 to 1000000000 micro-USD per minute`},
		{"absurd minutes", table(`{"m":{"audio_microusd_per_minute":1000000001}}`), `model "m" has a price outside 0 to 1000000000 micro-USD per minute`},
		{"minutes twice", table(`{"m":{"audio_microusd_per_minute":1,"audio_microusd_per_minute":1}}`), `line 1: "/models/m/audio_microusd_per_minute" is there twice`},
		{"fraction", table(`{"m":` + strings.Replace(model, "1", "0.5", 1) + `}`), `line 1: "/models/m/input_microusd_per_mtok" is not an integer`},
		{"text", table(`{"m":` + strings.Replace(model, "1", `"1"`, 1) + `}`), `line 1: "/models/m/input_microusd_per_mtok" is not an integer`},
		{"negative", table(`{"m":` + strings.Replace(model, "1", "-1", 1) + `}`), `model "m" has a price outside 0 to 1000000000000 micro-USD per million tokens`},
		{"absurd", table(`{"m":` + strings.Replace(model, "1", "1000000000001", 1) + `}`), `model "m" has a price outside 0 to 1000000000000 micro-USD per million tokens`},
		{"huge", table(`{"m":` + strings.Replace(model, "1", "99999999999999999999", 1) + `}`), `line 1: "/models/m/input_microusd_per_mtok" is not an integer`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := ParsePrices([]byte(tc.in))
			if err == nil || err.Error() != "reading price table: "+tc.want {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if p.Digest() != "" || p.Lookup("m") {
				t.Error("a refused table is not empty")
			}
		})
	}
}

func TestCost(t *testing.T) {
	p := testPrices(t) // 1, 0.1 and 10 micro-USD a token
	known := func(n int64) *int64 { return &n }
	for _, tc := range []struct {
		name  string
		model string
		u     Usage
		want  *int64
	}{
		{"nothing used", "test-model", Usage{Reported: true}, known(0)},
		{"input", "test-model", Usage{Reported: true, In: 7}, known(7)},
		{"output with reasoning", "test-model", Usage{Reported: true, Out: 7, Reasoning: 5}, known(70)},
		{"cached input", "test-model", Usage{Reported: true, In: 30, Cached: 20}, known(12)},
		{"rounded up", "test-model", Usage{Reported: true, In: 1, Cached: 1}, known(1)},
		{"rounded up once", "test-model", Usage{Reported: true, In: 11, Cached: 11}, known(2)},
		{"most", "test-model", Usage{Reported: true, In: maxTokens, Out: maxTokens}, known(11 * maxTokens)},
		{"unknown model", "other", Usage{Reported: true, In: 7}, nil},
		{"not reported", "test-model", Usage{In: 7}, nil},
		{"negative", "test-model", Usage{Reported: true, In: -7}, nil},
		{"too many", "test-model", Usage{Reported: true, In: maxTokens + 1}, nil},
		{"more cached than read", "test-model", Usage{Reported: true, In: 1, Cached: 2}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := p.Cost(tc.model, tc.u)
			if (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
				t.Errorf("got %v, want %v", show(got), show(tc.want))
			}
		})
	}
	if got := (Prices{}).Cost("test-model", Usage{Reported: true}); got != nil {
		t.Errorf("a table without models knows a price: %d", *got)
	}
}

func show(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

// audioPrices knows one model by minutes (6,000 micro-USD) and one by tokens.
func audioPrices(t *testing.T) Prices {
	t.Helper()
	p, err := ParsePrices([]byte(`{"version":"t","note":"","models":{"whisper-t":{"audio_microusd_per_minute":6000},"costly":{"audio_microusd_per_minute":1000000000},` +
		`"by-token":{"input_microusd_per_mtok":6000000,"cached_input_microusd_per_mtok":1,"output_microusd_per_mtok":10000000}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCostOfAudio(t *testing.T) {
	p := audioPrices(t)
	for _, tc := range []struct {
		model string
		ms    int64
		want  string
	}{
		{"whisper-t", 60_000, "6000"}, {"whisper-t", 1, "1"}, {"whisper-t", 10, "1"}, {"whisper-t", 11, "2"}, {"whisper-t", 90_000, "9000"},
		{"whisper-t", 0, "unknown"}, {"whisper-t", -5, "unknown"}, {"whisper-t", maxMilliseconds + 1, "unknown"},
		{"costly", maxMilliseconds, "16666666666667"}, {"by-token", 60_000, "unknown"}, {"other", 60_000, "unknown"},
	} {
		if got := show(p.CostOfAudio(tc.model, tc.ms)); got != tc.want {
			t.Errorf("%d ms of %s: %s, want %s", tc.ms, tc.model, got, tc.want)
		}
	}
	if got := p.Cost("whisper-t", Usage{Reported: true, In: 5}); got != nil {
		t.Errorf("tokens of a model that is billed by the minute cost %d", *got)
	}
	if got := show(BuiltinPrices().CostOfAudio("whisper-1", 3_600_000)); got != "360000" {
		t.Errorf("an hour of whisper-1 costs %s", got)
	}
}

func TestBound(t *testing.T) {
	p := audioPrices(t)
	for _, tc := range []struct {
		model   string
		in, out int64
		want    string
	}{
		{"by-token", 1000, 100, "7000"}, {"by-token", 0, 0, "0"}, {"by-token", 0, 1, "10"}, {"by-token", -1, 0, "unknown"},
		{"by-token", 0, maxTokens + 1, "unknown"}, {"whisper-t", 1, 1, "unknown"}, {"other", 1, 1, "unknown"},
	} {
		if got := show(p.Bound(tc.model, tc.in, tc.out)); got != tc.want {
			t.Errorf("%d in and %d out of %s: %s, want %s", tc.in, tc.out, tc.model, got, tc.want)
		}
	}
}

func TestModels(t *testing.T) {
	if diff := cmp.Diff([]string{"by-token", "costly", "whisper-t"}, audioPrices(t).Models()); diff != "" {
		t.Error(diff)
	}
	for _, name := range BuiltinPrices().Models() {
		if !BuiltinPrices().Lookup(name) {
			t.Errorf("%q is listed and not known", name)
		}
	}
	if got := (Prices{}).Models(); len(got) != 0 {
		t.Errorf("a table without models lists %q", got)
	}
}

// Against exact fractions: never less than the true cost, and less than one micro-USD more.
func TestCostIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, least, most int64) int64 { return rapid.Int64Range(least, most).Draw(t, name) }
		m := price{Input: new(n("input price", 0, maxPrice)), CachedInput: new(n("cached price", 0, maxPrice)), Output: new(n("output price", 0, maxPrice))}
		u := Usage{Reported: true, In: n("in", 0, maxTokens), Out: n("out", 0, maxTokens)}
		u.Cached = n("cached", 0, u.In)
		got := Prices{models: map[string]price{"m": m}}.Cost("m", u)
		exact := new(big.Rat)
		for _, part := range [][2]int64{{u.In - u.Cached, *m.Input}, {u.Cached, *m.CachedInput}, {u.Out, *m.Output}} {
			exact.Add(exact, new(big.Rat).Mul(big.NewRat(part[0], 1_000_000), big.NewRat(part[1], 1)))
		}
		over := new(big.Rat).Sub(big.NewRat(*got, 1), exact)
		if over.Sign() < 0 || over.Cmp(big.NewRat(1, 1)) >= 0 {
			t.Fatalf("cost %d of exactly %s", *got, exact.FloatString(6))
		}
		if *got < 0 || *got >= 1<<53 {
			t.Fatalf("cost %d cannot be recorded", *got)
		}
	})
}

func FuzzParsePrices(f *testing.F) {
	f.Add(builtinPrices)
	f.Add([]byte(`{"version":"1","note":"","models":{"m":{"audio_microusd_per_minute":7}}}`))
	f.Add([]byte(`{"version":"1","note":"","models":{"m":{"input_microusd_per_mtok":1}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePrices(b)
		if (err == nil) != (p.Digest() != "") {
			t.Errorf("digest %q with error %v", p.Digest(), err)
		}
		for name, m := range p.models {
			if m.Audio != nil {
				if m.Input != nil || *m.Audio < 0 || *m.Audio > maxAudioPrice {
					t.Errorf("price %d a minute of %q, also by tokens: %v", *m.Audio, name, m.Input != nil)
				}
				continue
			}
			for _, n := range []*int64{m.Input, m.CachedInput, m.Output} {
				if *n < 0 || *n > maxPrice {
					t.Errorf("price %d", *n)
				}
			}
		}
	})
}

// What the Messages API wrote to its cache has other prices, where the table has them.
func TestCostOfCacheWrites(t *testing.T) {
	prices, err := ParsePrices([]byte(`{"version":"1","note":"","models":{
		"none":{"input_microusd_per_mtok":1000000,"cached_input_microusd_per_mtok":100000,"output_microusd_per_mtok":0},
		"one":{"input_microusd_per_mtok":1000000,"cached_input_microusd_per_mtok":100000,"output_microusd_per_mtok":0,"cache_write_microusd_per_mtok":1250000},
		"both":{"input_microusd_per_mtok":1000000,"cached_input_microusd_per_mtok":100000,"output_microusd_per_mtok":0,"cache_write_microusd_per_mtok":1250000,"cache_write_1h_microusd_per_mtok":2000000}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		usage string
		want  Usage
		costs [3]int64
	}{
		{`{"input_tokens":10,"output_tokens":1}`, Usage{Reported: true, In: 10, Out: 1}, [3]int64{10, 10, 10}},
		{`{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":null,"output_tokens":1}`, Usage{Reported: true, In: 110, Out: 1, Cached: 100}, [3]int64{20, 20, 20}},
		{`{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":40,"output_tokens":1}`, Usage{Reported: true, In: 150, Out: 1, Cached: 100, Written: 40}, [3]int64{60, 70, 70}},
		{`{"input_tokens":10,"cache_creation_input_tokens":40,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":20},"output_tokens":1}`,
			Usage{Reported: true, In: 50, Out: 1, Written: 20, WrittenHour: 20}, [3]int64{50, 60, 75}},
		{`{"input_tokens":10,"cache_creation_input_tokens":40,"cache_creation":{"ephemeral_1h_input_tokens":41},"output_tokens":1}`, Usage{}, [3]int64{}},
		{`{"input_tokens":10,"cache_read_input_tokens":-1,"output_tokens":1}`, Usage{}, [3]int64{}},
		{`{"input_tokens":100000000,"cache_read_input_tokens":1,"output_tokens":1}`, Usage{}, [3]int64{}},
	} {
		for i, model := range []string{"none", "one", "both"} {
			r, failed := ReadAnswer(DialectMessages, 200, nil, []byte(`{"content":[{"type":"text","text":"a"}],"usage":`+tc.usage+`}`), model, prices)
			if failed != nil || r.Usage != tc.want || (r.CostMicroUSD != nil) != tc.want.Reported || r.CostMicroUSD != nil && *r.CostMicroUSD != tc.costs[i] {
				t.Errorf("%s by %s: %+v, %v", tc.usage, model, r, failed)
			}
		}
	}
}
