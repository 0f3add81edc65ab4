package audit

import (
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
)

// saying is what a tool of this program says of itself, by digest. TestBuiltins
// holds it against the tools.
type saying struct {
	descriptions []string // of the description, without Python's version
	schema       string   // of the schema of its parameters
}

// sayings are those of the tools that a plan can have, by name.
func sayings() map[string]saying {
	return map[string]saying{
		"calculate":      {[]string{"sha256:7614e925d2982404e431e6a9f9f5f5620db69788b5354d16e69200122caec1d5"}, "sha256:5370c69e56861c80327c1d614665ae52d482303be787114b095b39199f09ef6a"},
		"describe_image": {[]string{"sha256:af1196e7b0e2e8b3a05fca19cab7dfc58e6d21992f4155c9b7020c9bd1663faf"}, "sha256:58d898c514ca58e08d64cf33829714e37c7858ed03f6d9e0a2b619b57e94527d"},
		"list_files":     {[]string{"sha256:6ab97343a527b052a4d8e3d1cbf427fcee428312fb5630caf556d291b89dff5d"}, "sha256:32062bdb9024160d3b9816f12ba2f337808ee107449f8bf08d55b0026944f51e"},
		"python": {[]string{ // in the sandbox, and without one
			"sha256:de877a1db21f31581c6996bc9d2eb68580ac23d5ec984e1622ee3b6650043880",
			"sha256:c5d58d31576c9df0989441d02b469c483f26a18fab45b180e086a29e3c201ac5",
		}, "sha256:1b321c173799ce5b6c40c553fe6a1547aa16c190ab9234acbbc15c87db8de485"},
		"read_file":        {[]string{"sha256:a97d86b1f09e1d0dd5681722fd2abb38a77495dbdf1dbbea7bd06da7bc1d4876"}, "sha256:89688db692664c603ee153471d42ce20ccfc7c2f59d431ae20dea6f1ca2dc87f"},
		"transcribe_audio": {[]string{"sha256:ad88b6d77f8996bc7457e9d03ad5dfad150562ff31e3b1e185d791718238c49c"}, "sha256:4c4c8f20707485aca9a31e303e53d5eeac4888e9613f3c7467f71994268631eb"},
		"web_fetch":        {[]string{"sha256:39637e2b298650a1199fb89699454b6d7a87cdf4f897622484233dd83409692f"}, "sha256:3a3bc14d7a126294de5d71d0fe9cc5a403c06afbfbf0dff086e501baf7dedc34"},
		"web_search":       {[]string{"sha256:8109fdb68e6008e2394fb11398427d032ea07e6c3dad1c1a13c9e82ae457edf9"}, "sha256:6e4b20da201437329db069af272f7af1ccbdd26cc4c43a70af81f01ccc4b406d"},
	}
}

// said returns what a tool of a plan says of itself as sayings have it.
func said(t ledger.ToolPlan) (description, schema string) {
	text := t.Description
	if before, rest, ok := strings.Cut(text, " It is Python "); ok && t.Name == "python" {
		if version, after, ok := strings.Cut(rest, " "); ok && len(version) < 12 && strings.Trim(version, "0123456789.abrc+") == "" {
			text = before + " It is Python " + after
		}
	}
	return sign.Digest([]byte(text)), t.SchemaSHA256
}

// ours reports whether a tool of a plan is one of this version's, which says of
// itself what it does in this version, and takes what it takes.
func ours(t ledger.ToolPlan) bool {
	own, known := sayings()[t.Name]
	description, schema := said(t)
	return known && t.Server == "" && slices.Contains(own.descriptions, description) && schema == own.schema
}
