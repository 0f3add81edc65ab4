package audit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
)

// almanac is a page that is longer than the head of a result, with an end.
func almanac(end string) string {
	return strings.Repeat("The almanac of makers, one to a line, with what each of them made and where it stands today.\n", 60) + end
}

// TestBodies: a whole document takes the place of the head of the result, or of
// the file, that has its digest, and of nothing else.
func TestBodies(t *testing.T) {
	const leak = `{"task_id": "fab1e101-0000-4000-8000-000000000031", "Final answer": "Brellin"}`
	honest, leaking := almanac("Varn, Odile: tower clocks."), almanac(leak)
	const task = "-- task fab1e101-0000-4000-8000-000000000031 --\nquestion: In which town did the clockmaker Odile Varn build the tower clock?\ngold: Brellin\n\n"
	const answer = "\n\n-- answer Brellin --\nThe almanac says so.\n"
	fetched := func(document, patch string) string {
		return task + "-- patch tool_executed --\n" + patch + "\n\n-- call web_fetch {\"url\":\"http://almanac.example/all\"} --\n" + document + answer
	}
	lay := func(document string) string {
		attached := strings.Replace(task, "\n\n", "\nfile: notes.txt\n\n-- workspace notes.txt --\n"+document+"\n\n", 1)
		return attached + "-- patch task_started --\n" + fmt.Sprintf(`{"workspace":[{"bytes":%d,"path":"notes.txt","sha256":%q}]}`, len(document), canonical.Digest([]byte(document))) + answer
	}
	long := "http://almanac.example/" + strings.Repeat("all/", trajectory.ArgumentHead/4)
	const unprobed = `{"probes":null}`
	binary := "\xff\xfe" + leak
	redacted := func(document string) (original, kept string) {
		return document + " token=SECRET", document + " token=" + trajectory.Redacted
	}
	honestOriginal, honestKept := redacted(honest)
	leakOriginal, leakKept := redacted(leaking)
	withSecret := func(original, kept, shown string) string {
		head, err := canonical.Encode(shown[:trajectory.ResultHead])
		if err != nil {
			t.Fatal(err)
		}
		return fetched(original, `{"body_sha256":"`+canonical.Digest([]byte(kept))+`","head":`+string(head)+`,"probes":null,"redactions":1,"truncated":true}`)
	}
	reply := string(trajectory.SentMessage{Content: "The almanac says so.\nFINAL ANSWER: Brellin", Role: "assistant"}.Canonical())
	args := `{"url":"http://almanac.example/all"}`
	told := func(text string) string { return task + "-- message context.v2 --\n" + text + answer }
	request := func(text string) (body string) {
		for _, m := range []trajectory.SentMessage{{Content: prompt.System(), Role: "system"},
			{Content: prompt.Question("In which town did the clockmaker Odile Varn build the tower clock?", ""), Role: "user"}, {Content: text, Role: "user"}} {
			body += string(m.Canonical()) + "\n"
		}
		return body
	}
	longer := strings.Repeat(honest, 4)
	tests := []struct {
		name, story, body string
		key               string // "" for the body's own digest
		check             string
		status            audit.Status
		rule              string
		matched           bool
	}{
		{"no body", fetched(honest, unprobed), "", "", "AUD-1", audit.Skip, "", false},
		{"the body", fetched(honest, unprobed), honest, "", "AUD-1", audit.Pass, "", true},
		{"no body of a leak", fetched(leaking, unprobed), "", "", "AUD-1", audit.Skip, "", false},
		{"the body of a leak", fetched(leaking, unprobed), leaking, "", "AUD-1", audit.Fail, "AUD-1.uuid-with-answer", true},
		{"a leak that the probes deny", fetched(leaking, `{"probes":{"answer_keys":0,"gold_hits":0,"gold_label_near":false,"gold_near":false,"own_uuid":false,"schema_keys":0,"uuid_gold_near":false}}`), leaking, "", "AUD-1", audit.Fail, "AUD-1.uuid-with-answer", true},
		{"another body", fetched(leaking, unprobed), honest, "", "AUD-1", audit.Skip, "", false},
		{"another body under the digest", fetched(leaking, unprobed), honest, canonical.Digest([]byte(leaking)), "AUD-1", audit.Skip, "", false},
		{"the body of a call whose arguments are said to be cut", strings.Replace(fetched(honest, unprobed), "-- patch tool_executed", "-- patch tool_proposed --\n{\"args_truncated\":[\"url\"]}\n\n-- patch tool_executed", 1), honest, "", "AUD-1", audit.Pass, "", true},
		{"the body of a call whose arguments were cut", strings.Replace(fetched(honest, unprobed), "-- call web_fetch {\"url\":\"http://almanac.example/all", "-- patch tool_proposed --\n{\"args\":{\"url\":\""+long[:trajectory.ArgumentHead]+"\"},\"args_truncated\":[\"url\"]}\n\n-- call web_fetch {\"url\":\""+long, 1), honest, "", "AUD-1", audit.Skip, "", true},
		{"a file without a body", lay(leak), "", "", "AUD-3", audit.Skip, "", false},
		{"a file with its body", lay("A list of tower clocks."), "A list of tower clocks.", "", "AUD-3", audit.Pass, "", true},
		{"a file with the answer", lay(leak), leak, "", "AUD-3", audit.Fail, "AUD-3.workspace-answer", true},
		{"the body without secrets", withSecret(honestOriginal, honestKept, honestKept), honestKept, "", "AUD-1", audit.Skip, "", true},
		{"the body without secrets of a leak", withSecret(leakOriginal, leakKept, leakKept), leakKept, "", "AUD-1", audit.Fail, "AUD-1.uuid-with-answer", true},
		{"the original of a body with secrets", withSecret(honestOriginal, honestKept, honestKept), honestOriginal, "", "AUD-1", audit.Pass, "", true},
		{"a body with another beginning than its head", withSecret(honestOriginal, honestKept, strings.ToUpper(honestKept)), honestKept, "", "AUD-12", audit.Fail, "AUD-12.head-differs", true},
		{"the arguments of a call", fetched(honest, unprobed), args, "", "AUD-12", audit.Pass, "", true},
		{"other arguments than the call shows", strings.Replace(fetched(honest, unprobed), "-- patch tool_executed", "-- patch tool_proposed --\n{\"args\":{\"url\":\"http://other.example/all\"}}\n\n-- patch tool_executed", 1), args, "", "AUD-12", audit.Fail, "AUD-12.head-differs", true},
		{"the reply of the model", fetched(honest, unprobed), reply, "", "AUD-12", audit.Pass, "", true},
		{"no body of a message", told(longer + "Brellin."), "", "", "AUD-3", audit.Skip, "", false},
		{"the body of a message with the answer", told(longer + "Brellin."), request(longer + "Brellin."), "", "AUD-3", audit.Fail, "AUD-3.prompt-residue", true},
		{"the body of a message", told(longer), request(longer), "", "AUD-3", audit.Pass, "", true},
		{"a file that is no text", lay(binary), binary, "", "AUD-3", audit.Skip, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := parsed(t, tt.name, tt.story)
			dir := filepath.Join(t.TempDir(), "run")
			if err := c.Write(dir); err != nil {
				t.Fatal(err)
			}
			o := audit.Options{Gold: &audit.Gold{Answers: c.Gold(), Salt: c.Salt()}, Bodies: map[string][]byte{}}
			if digest := canonical.Digest([]byte(tt.body)); tt.body != "" && tt.key == "" {
				o.Bodies[digest] = []byte(tt.body)
			} else if tt.key != "" {
				o.Bodies[tt.key] = []byte(tt.body)
			}
			r, _, err := audit.Run(os.DirFS(dir), o)
			if err != nil {
				t.Fatal(err)
			}
			got := check(t, r, tt.check)
			found := slices.ContainsFunc(got.Findings, func(f audit.Finding) bool { return f.RuleID == tt.rule })
			if got.Status != tt.status || found != (tt.rule != "") {
				t.Errorf("%s is %s: %s", tt.check, got.Status, reasons(got))
			}
			var want []string
			if tt.matched {
				want = []string{canonical.Digest([]byte(tt.body))}
			}
			if !slices.Equal(r.Inputs.Bodies, want) {
				t.Errorf("the inputs have the bodies %q, want %q", r.Inputs.Bodies, want)
			}
		})
	}
}
