package judgecache_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
)

// scene is a cache with one good entry, which says "incorrect", and the keys
// around it.
type scene struct {
	*testing.T
	dir, file             string
	asked, other          judgecache.Context
	own, rotated, foreign sign.Key
}

func (s scene) read() []byte {
	s.Helper()
	data, err := os.ReadFile(s.file)
	if err != nil {
		s.Fatal(err)
	}
	return data
}

func (s scene) write(data []byte) {
	s.Helper()
	if err := os.WriteFile(s.file, data, 0o600); err != nil {
		s.Fatal(err)
	}
}

// replace changes the entry's text.
func (s scene) replace(old, new string) {
	s.Helper()
	data := s.read()
	if bytes.Count(data, []byte(old)) != 1 {
		s.Fatalf("%q is not once in %s", old, data)
	}
	s.write(bytes.Replace(data, []byte(old), []byte(new), 1))
}

// member returns what the entry says under a name.
func (s scene) member(name string) string {
	s.Helper()
	var m map[string]string
	if err := json.Unmarshal(s.read(), &m); err != nil {
		s.Fatal(err)
	}
	return m[name]
}

// sign replaces the entry by one that key signs: its members, changed.
func (s scene) sign(key sign.Key, change ...string) {
	s.Helper()
	m := members(s, key, s.asked, "correct")
	for i := 0; i < len(change); i += 2 {
		if m[change[i]] = change[i+1]; change[i+1] == "" {
			delete(m, change[i])
		}
	}
	s.write(forge(s, key, m))
}

// copyFrom puts the entry of another question, as the cache itself made it, in
// place of the one that is asked.
func (s scene) copyFrom(ctx judgecache.Context) {
	s.Helper()
	put(s, open(s, s.dir, s.own), ctx, true)
	if err := os.Rename(path(s, s.dir, ctx), s.file); err != nil {
		s.Fatal(err)
	}
}

// instead replaces the entry by what is not a file.
func (s scene) instead(make func(path string) error) {
	s.Helper()
	if err := os.Remove(s.file); err != nil {
		s.Fatal(err)
	}
	if err := make(s.file); err != nil {
		s.Fatal(err)
	}
}

// The answers there are to an attack.
const (
	good         = "good"
	miss         = "miss"
	notRegular   = "not a regular file"
	tooLarge     = "too large"
	malformed    = "not the canonical JSON of a judgment"
	unsigned     = "not signed"
	Untrusted    = "signed by a key that is not trusted"
	forged       = "under a signature that is not good"
	misplaced    = "under another name than its own"
	anotherModel = "of another model than was asked"
)

var attacks = []struct {
	name string
	want string
	do   func(scene)
}{
	{"nothing done", good, func(s scene) {}},
	{"written again in the same words", good, func(s scene) { s.sign(s.own) }},
	{"signed by a rotated but trusted key", good, func(s scene) { s.sign(s.rotated) }},

	{"entry deleted", miss, func(s scene) { s.instead(func(string) error { return nil }) }},
	{"legacy entry", miss, func(s scene) { s.write([]byte(`{"key":"0af3","verdict":"correct","model":"m"}`)) }},
	{"legacy entry with a context", miss, func(s scene) { s.write([]byte("{ \"context\": \"x\",\n  \"verdict\": \"incorrect\" }\n")) }},

	{"verdict flipped", forged, func(s scene) { s.replace(`"incorrect"`, `"correct"`) }},
	{"model changed", forged, func(s scene) { s.replace(`"umpire-1"`, `"umpire-2"`) }},
	{"time changed", forged, func(s scene) { s.replace("05.678Z", "05.679Z") }},
	{"signature of another message", forged, func(s scene) {
		s.replace(s.member("signature"), base64.StdEncoding.EncodeToString(s.own.Sign([]byte("x"))))
	}},
	{"signature without the payload type", forged, func(s scene) {
		payload, _, _ := strings.Cut(string(s.read()), `"signature"`)
		payload += `"verdict":"incorrect"}`
		s.replace(s.member("signature"), base64.StdEncoding.EncodeToString(s.own.Sign([]byte(payload))))
	}},
	{"signature of another key under a trusted name", forged, func(s scene) {
		s.sign(s.foreign, "key", s.own.Public().ID())
	}},
	{"signature with its other S", forged, func(s scene) { s.replace(s.member("signature"), otherS(s, s.member("signature"))) }},
	{"short signature", forged, func(s scene) { s.replace(s.member("signature"), "AAAA") }},

	{"signature removed", unsigned, func(s scene) { s.replace(`"signature":"`+s.member("signature")+`",`, "") }},
	{"signature of another key", Untrusted, func(s scene) { s.sign(s.foreign) }},
	{"key's line instead of its name", Untrusted, func(s scene) { s.sign(s.own, "key", s.own.Public().Line()) }},
	{"no key named", Untrusted, func(s scene) { s.replace(s.own.Public().ID(), "") }},

	{"another task's entry copied in", misplaced, func(s scene) { s.copyFrom(s.other) }},
	{"entry of another answer copied in", misplaced, func(s scene) { s.copyFrom(withField(s.asked, 1, "a stork")) }},
	{"entry of another gold copied in", misplaced, func(s scene) { s.copyFrom(withField(s.asked, 2, "a heron")) }},
	{"entry of another model copied in", misplaced, func(s scene) { s.copyFrom(withField(s.asked, 3, "umpire-0")) }},
	{"entry of another endpoint copied in", misplaced, func(s scene) { s.copyFrom(withField(s.asked, 4, "https://lenient.example")) }},
	{"entry of another prompt copied in", misplaced, func(s scene) { s.copyFrom(withField(s.asked, 5, canonical.Digest(nil))) }},
	{"entry of another battery copied in", misplaced, func(s scene) { s.copyFrom(withField(s.asked, 6, canonical.Digest(nil))) }},
	{"entry of before batteries copied in", misplaced, func(s scene) { s.copyFrom(withField(s.asked, 6, "")) }},
	{"another task's entry with this one's context", forged, func(s scene) {
		s.copyFrom(s.other)
		s.replace(digest(s, s.other), digest(s, s.asked))
	}},
	{"another model named beside the context", anotherModel, func(s scene) { s.sign(s.own, "model", "umpire-2") }},

	{"truncated", malformed, func(s scene) { s.write(s.read()[:200]) }},
	{"empty", malformed, func(s scene) { s.write(nil) }},
	{"newline at the end", malformed, func(s scene) { s.write(append(s.read(), '\n')) }},
	{"byte order mark", malformed, func(s scene) { s.write(append([]byte("\ufeff"), s.read()...)) }},
	{"two entries", malformed, func(s scene) { s.write(append(s.read(), s.read()...)) }},
	{"white space", malformed, func(s scene) { s.replace(`"verdict":`, `"verdict": `) }},
	{"needless escape", malformed, func(s scene) { s.replace(`"incorrect"`, `"\u0069ncorrect"`) }},
	{"other order", malformed, func(s scene) {
		s.replace(`,"verdict":"incorrect"`, "")
		s.replace(`{`, `{"verdict":"incorrect",`)
	}},
	{"duplicate keys", malformed, func(s scene) { s.replace(`"verdict":"incorrect"`, `"verdict":"correct","verdict":"incorrect"`) }},
	{"duplicate keys after", malformed, func(s scene) { s.replace(`"verdict":"incorrect"`, `"verdict":"incorrect","verdict":"correct"`) }},
	{"key in capitals", malformed, func(s scene) { s.replace(`"verdict"`, `"Verdict"`) }},
	{"extra field", malformed, func(s scene) { s.replace(`"incorrect"}`, `"incorrect","zeal":1}`) }},
	{"extra field, signed", malformed, func(s scene) { s.sign(s.own, "note", "x") }},
	{"field removed, signed", malformed, func(s scene) { s.sign(s.own, "created", "") }},
	{"another schema, signed", malformed, func(s scene) { s.sign(s.own, "schema", "gaia.judgment/2") }},
	{"schema removed", malformed, func(s scene) { s.replace(`"schema":"gaia.judgment/1",`, "") }},
	{"schema null and no signature", malformed, func(s scene) { s.write([]byte(`{"context":"x","schema":null,"verdict":"correct"}`)) }},
	{"another verdict, signed", malformed, func(s scene) { s.sign(s.own, "verdict", "Correct") }},
	{"verdict of another type", malformed, func(s scene) { s.replace(`"incorrect"`, `true`) }},
	{"another form of time, signed", malformed, func(s scene) { s.sign(s.own, "created", "2026-01-02T03:04:05,678Z") }},
	{"another zone, signed", malformed, func(s scene) { s.sign(s.own, "created", "2026-01-02T03:04:05.678+01:00") }},
	{"digest in capitals, signed", malformed, func(s scene) {
		s.sign(s.own, "context", "sha256:"+strings.ToUpper(digest(s, s.asked)[7:]))
	}},
	{"short digest, signed", malformed, func(s scene) { s.sign(s.own, "context", digest(s, s.asked)[:70]) }},
	{"empty signature", malformed, func(s scene) { s.replace(s.member("signature"), "") }},
	{"base64 with unused bits", malformed, func(s scene) {
		sig := s.member("signature") // 64 bytes: the last digit before == has four unused bits
		last := strings.IndexByte("AQgw", sig[85])
		s.replace(sig, sig[:85]+string("BRhx"[last])+"==")
	}},
	{"base64 without padding", malformed, func(s scene) { s.replace(`==","verdict"`, `","verdict"`) }},
	{"base64 with a newline", malformed, func(s scene) { s.replace(`==","verdict"`, `==\n","verdict"`) }},
	{"base64 in the alphabet for URLs", malformed, func(s scene) {
		s.replace(s.member("signature"), base64.URLEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 64)))
	}},
	{"no JSON object", malformed, func(s scene) { s.write([]byte(`["correct"]`)) }},
	{"legacy entry with duplicate keys", malformed, func(s scene) { s.write([]byte(`{"key":"k","verdict":"correct","verdict":"incorrect"}`)) }},
	{"legacy entry of nothing", malformed, func(s scene) { s.write([]byte(`{"verdict":"correct"}`)) }},
	{"legacy entry with a signature", malformed, func(s scene) { s.write([]byte(`{"context":"x","signature":"","verdict":"correct"}`)) }},
	{"deep nesting", malformed, func(s scene) { s.write(bytes.Repeat([]byte("["), 16<<10)) }},
	{"endless", tooLarge, func(s scene) { s.write(bytes.Repeat([]byte(" "), 16<<10+1)) }},

	{"symlink", notRegular, func(s scene) {
		aside := filepath.Join(s.TempDir(), "aside") // to a good entry, even
		if err := os.Rename(s.file, aside); err != nil {
			s.Fatal(err)
		}
		if err := os.Symlink(aside, s.file); err != nil {
			s.Fatal(err)
		}
	}},
	{"dangling symlink", notRegular, func(s scene) {
		s.instead(func(p string) error { return os.Symlink("nowhere", p) })
	}},
	{"pipe", notRegular, func(s scene) { s.instead(func(p string) error { return syscall.Mkfifo(p, 0o600) }) }},
	{"directory", notRegular, func(s scene) { s.instead(func(p string) error { return os.Mkdir(p, 0o700) }) }},
}

// TestAttacks is the list of what can be done to an entry, and what comes of
// it: the verdict is used, it is silently missed, or it is bad for one reason.
func TestAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			dir := t.TempDir()
			s := scene{T: t, dir: dir, asked: question(1), other: question(2), own: newKey(t, 1), rotated: newKey(t, 2), foreign: newKey(t, 3)}
			s.file = path(t, dir, s.asked)
			reopen := func() *judgecache.Cache { return open(t, dir, s.own, s.rotated.Public()) }
			put(t, reopen(), s.asked, false)
			a.do(s)

			var wantBad []judgecache.Bad
			if a.want != good && a.want != miss {
				wantBad = []judgecache.Bad{{Name: filepath.Base(s.file), Reason: a.want}}
			}
			c := reopen()
			_, found, bad, err := c.Get(s.asked)
			if found != (a.want == good) || err != nil {
				t.Errorf("Get: found %v, %v", found, err)
			}
			if (bad != nil) != (wantBad != nil) || bad != nil && *bad != wantBad[0] {
				t.Errorf("Get: bad %v, want %v", bad, wantBad)
			}
			if _, found, bad, err := c.Get(s.asked); found != (a.want == good) || bad != nil || err != nil {
				t.Errorf("second Get: found %v, bad %v, %v", found, bad, err)
			}
			if a.want != anotherModel { // only who asks knows of it
				swept := reopen()
				for range 2 {
					if got := sweep(t, swept); !slices.Equal(got.Bad, wantBad) {
						t.Errorf("Sweep: %+v, want %v", got, wantBad)
					}
				}
				if _, found, bad, err := swept.Get(s.asked); found != (a.want == good) || bad != nil || err != nil {
					t.Errorf("Get after Sweep: found %v, bad %v, %v", found, bad, err)
				}
			}
			if a.name == "directory" {
				return
			}
			put(t, c, s.asked, true)
			if correct, found, bad, err := reopen().Get(s.asked); !correct || !found || bad != nil || err != nil {
				t.Errorf("after Put: Get = %v, %v, %v, %v", correct, found, bad, err)
			}
		})
	}
}

// otherS adds the order of the group to a signature's second half, which
// leaves the equation true that a signature is checked by.
func otherS(t testing.TB, sig string) string {
	b, err := base64.StdEncoding.DecodeString(sig)
	if err != nil {
		t.Fatal(err)
	}
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	s := slices.Clone(b[32:])
	slices.Reverse(s)
	s = new(big.Int).Add(new(big.Int).SetBytes(s), order).FillBytes(make([]byte, 32))
	slices.Reverse(s)
	return base64.StdEncoding.EncodeToString(append(b[:32], s...))
}

// TestAnotherQuestionMisses: an entry answers what it was made for.
func TestAnotherQuestionMisses(t *testing.T) {
	c := open(t, t.TempDir(), newKey(t, 1))
	put(t, c, question(1), true)
	for i := range 7 {
		if _, found, bad, err := c.Get(withField(question(1), i, "another")); found || bad != nil || err != nil {
			t.Errorf("field %d: found %v, bad %v, %v", i, found, bad, err)
		}
	}
}
