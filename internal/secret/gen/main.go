// Command gen writes the rules of gitleaks that package secret uses into rules.json:
// without what names no secret, what secret's own rules do better, and what would
// match innocent text. It downloads gitleaks as a Go module of a fixed version. The file
// is JSON, one rule on a line, each with its id, form, least entropy and keywords.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

const module = "github.com/zricethezav/gitleaks/v8@v8.30.1"

// left says why a rule is not taken.
var left = map[string]string{
	"azure-ad-client-secret": "own rule: also in URLs",
	"curl-auth-header":       "own rules: basic, bearer, header",
	"curl-auth-user":         "reads several lines for each curl; names and passwords of prose",
	"generic-api-key":        "own rule assigned: this one takes any word before a long value",
	"hashicorp-tf-password":  "password = any word in quotes",
	"kubernetes-secret-yaml": "any base64 under data:",
	"jwt":                    "own rule: its alphabet has the backslash of JSON",
	"nuget-config-password":  "any text in an attribute",
	"pkcs12-file":            "a file name",
	"private-key":            "own rule: the end may be out of sight",
	"pypi-upload-token":      "own rule: also of the test index",
	"slack-bot-token":        "own rule slack: all kinds",
}

// keywords replaces keywords that are in all prose.
var keywords = map[string][]string{
	"sourcegraph-access-token": {"sgp_"}, // the other form is that of any commit
	"vault-service-token":      {"hvs."},
}

type rule struct {
	ID       string   `json:"id" toml:"id"`
	Regex    string   `json:"regex" toml:"regex"`
	Entropy  float64  `json:"entropy,omitempty" toml:"entropy"`
	Group    int      `json:"group,omitempty" toml:"secretGroup"`
	Keywords []string `json:"keywords" toml:"keywords"`
}

func main() {
	log.SetFlags(0)
	download := exec.Command("go", "mod", "download", "-json", module)
	download.Env = os.Environ()
	out, err := download.Output()
	if err != nil {
		log.Fatal(err)
	}
	var got struct{ Dir string }
	if err := json.Unmarshal(out, &got); err != nil {
		log.Fatal(err)
	}
	var config struct {
		Rules []rule `toml:"rules"`
	}
	if _, err := toml.DecodeFile(filepath.Join(got.Dir, "config", "gitleaks.toml"), &config); err != nil {
		log.Fatal(err)
	}
	rules := slices.DeleteFunc(config.Rules, func(r rule) bool {
		public := strings.HasSuffix(r.ID, "-client-id") || strings.HasSuffix(r.ID, "-access-id") || strings.HasSuffix(r.ID, "-pub-key") || strings.HasSuffix(r.ID, "-public-key")
		return public || left[r.ID] != ""
	})
	var text strings.Builder
	fmt.Fprintf(&text, "{\"source\":%q,\"rules\":[", module)
	for i, r := range rules {
		if k := keywords[r.ID]; k != nil {
			r.Keywords = k
		}
		for i, k := range r.Keywords {
			r.Keywords[i] = strings.ToLower(k)
		}
		var line strings.Builder
		e := json.NewEncoder(&line)
		e.SetEscapeHTML(false)
		if err := e.Encode(r); err != nil {
			log.Fatal(err)
		}
		text.WriteString([]string{"\n", ",\n"}[min(i, 1)] + strings.TrimSpace(line.String()))
	}
	text.WriteString("\n]}\n")
	if err := os.WriteFile("rules.json", []byte(text.String()), 0o644); err != nil {
		log.Fatal(err)
	}
}
