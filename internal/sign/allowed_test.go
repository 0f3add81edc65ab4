package sign_test

import (
	"crypto/rand"
	"crypto/rsa"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/sign"
	"golang.org/x/crypto/ssh"
)

func at(t testing.TB, s string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func TestParseAllowedSigners(t *testing.T) {
	key := newKey(t, 1).Public()
	line := key.Line()
	tests := []struct {
		name, in string
		want     sign.AllowedSigner // but for the key
		written  string             // before the key, if not as read
	}{
		{"plain", "alice " + line, sign.AllowedSigner{Principals: "alice"}, ""},
		{"comment and blanks", "\t alice,*@lab.example  " + line + "  two  words \r", sign.AllowedSigner{Principals: "alice,*@lab.example", Comment: "two  words"}, ""},
		{"namespaces", `alice namespaces="git,gaia" ` + line, sign.AllowedSigner{Principals: "alice", Namespaces: "git,gaia"}, ""},
		{"both dates", `a valid-after="20310203Z",valid-before="20310204050607Z" ` + line,
			sign.AllowedSigner{Principals: "a", ValidAfter: at(t, "2031-02-03T00:00:00Z"), ValidBefore: at(t, "2031-02-04T05:06:07Z")}, `a valid-after="20310203000000Z",valid-before="20310204050607Z"`},
		{"no zone is UTC", `a valid-before="203102040506" ` + line, sign.AllowedSigner{Principals: "a", ValidBefore: at(t, "2031-02-04T05:06:00Z")}, `a valid-before="20310204050600Z"`},
		{"any order and case", `a Valid-Before="20310204",NAMESPACES="gaia" ` + line,
			sign.AllowedSigner{Principals: "a", Namespaces: "gaia", ValidBefore: at(t, "2031-02-04T00:00:00Z")}, `a namespaces="gaia",valid-before="20310204000000Z"`},
		{"a name that looks like a key type", "ssh-ed25519 " + line, sign.AllowedSigner{Principals: "ssh-ed25519"}, ""},
	}
	for _, tt := range tests {
		list, err := sign.ParseAllowedSigners([]byte("# who may sign\n\n" + tt.in + "\n"))
		if err != nil || len(list) != 1 {
			t.Errorf("%s: %v, %v", tt.name, list, err)
			continue
		}
		got := list[0]
		if !got.Key.Equal(key) || got.Row != 3 || got.Principals != tt.want.Principals || got.Namespaces != tt.want.Namespaces || got.Comment != tt.want.Comment ||
			!got.ValidAfter.Equal(tt.want.ValidAfter) || !got.ValidBefore.Equal(tt.want.ValidBefore) {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if tt.written != "" && got.Line() != tt.written+" "+line {
			t.Errorf("%s: written as %q", tt.name, got.Line())
		}
	}
	if list, err := sign.ParseAllowedSigners([]byte("  # empty\n\t\n")); err != nil || len(list) != 0 {
		t.Errorf("an empty list: %v, %v", list, err)
	}
}

func TestParseAllowedSignersRefuses(t *testing.T) {
	line := newKey(t, 1).Public().Line()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaWire, err := ssh.NewPublicKey(rsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	const noLine = "not an allowed_signers line"
	noTime := func(s string) string {
		return `"` + s + `" is no time of the form YYYYMMDD or YYYYMMDDHHMMSS, both with or without Z`
	}
	tests := []struct{ name, in, want string }{
		{"a name alone", "alice", noLine},
		{"no key", "alice bob", noLine},
		{"no name", line, noLine},
		{"a cut key", "alice " + line[:len(line)-4], noLine},
		{"small order", "alice " + publicLine("ssh-ed25519", make([]byte, 32)), "ed25519 public key of small order"},
		{"rsa", "alice " + string(ssh.MarshalAuthorizedKey(rsaWire)), "a ssh-rsa key, not an ssh-ed25519 key"},
		{"security key", "alice " + publicLine("sk-ssh-ed25519@openssh.com", newKey(t, 1).Public().Raw(), []byte("ssh:")), "a sk-ssh-ed25519@openssh.com key, not an ssh-ed25519 key"},
		{"quoted name", `"alice" ` + line, `"\"alice\"" is no name of a signer`},
		{"a mark before a comment", "\ufeff#alice " + line, `"\ufeff#alice" is no name of a signer`},
		{"a blank without width before a comment", "\u200b# alice " + line, `"\u200b#" is no name of a signer`},
		{"a name with what cannot be seen", "al\u2060ice " + line, `"al\u2060ice" is no name of a signer`},
		{"authority", "*@lab.example cert-authority " + line, "cert-authority is not supported: give the signer's own key"},
		{"authority among others", `a namespaces="gaia",Cert-Authority ` + line, "cert-authority is not supported: give the signer's own key"},
		{"unknown option", `a touch-required="yes" ` + line, `unknown option "touch-required"`},
		{"unknown after known", `a valid-before="20310203",restrict ` + line, `unknown option "restrict"`},
		{"an option twice", `a valid-before="20310203",VALID-before="20330203" ` + line, "the option valid-before occurs twice"},
		{"empty option", `a namespaces="gaia",,valid-before="20310203" ` + line, noLine},
		{"comma before", `a ,valid-before="20310203" ` + line, noLine},
		{"comma after", `a valid-before="20310203", ` + line, noLine},
		{"comma alone", `a , ` + line, noLine},
		{"no value", "a valid-before " + line, "valid-before requires a value in double quotes"},
		{"no quotes", "a valid-before=20310203 " + line, "valid-before requires a value in double quotes"},
		{"single quotes", "a valid-before='20310203' " + line, "valid-before requires a value in double quotes"},
		{"an open quote", `a valid-before="20310203 ` + line, noLine},
		{"quotes within", `a namespaces="git""gaia" ` + line, "namespaces requires a value in double quotes"},
		{"escaped quote", `a namespaces="git\"" ` + line, "namespaces requires a value in double quotes"},
		{"empty value", `a namespaces="" ` + line, "namespaces requires a value in double quotes"},
		{"empty date", `a valid-before="" ` + line, "valid-before requires a value in double quotes"},
		{"no such day", `a valid-before="20310231" ` + line, "valid-before: " + noTime("20310231")},
		{"dashes", `a valid-after="2031-02-03" ` + line, "valid-after: " + noTime("2031-02-03")},
		{"two Z", `a valid-after="20310203ZZ" ` + line, "valid-after: " + noTime("20310203ZZ")},
		{"fraction", `a valid-after="20310203040506.5" ` + line, "valid-after: " + noTime("20310203040506.5")},
		{"the time that is none", `a valid-before="00010101" ` + line, "valid-before: " + noTime("00010101")},
		{"the time that OpenSSH takes for none", `a valid-before="19700101Z" ` + line, "valid-before: " + noTime("19700101Z")},
		{"ends before it begins", `a valid-after="20310203",valid-before="20310203" ` + line, "valid-before is not later than valid-after"},
		{"control character", "a " + line + " \x1b[2J", "it holds characters that are no text"},
		{"not UTF-8", "a " + line + " \xff", "it holds characters that are no text"},
		{"a carriage return within", "a " + line + "\rb " + line, "it holds characters that are no text"},
	}
	for _, tt := range tests {
		list, err := sign.ParseAllowedSigners([]byte("good " + line + "\n# and\n" + strings.TrimSpace(tt.in) + "\n"))
		if err == nil || err.Error() != "line 3: "+tt.want || list != nil {
			t.Errorf("%s: %v, %v, want %q", tt.name, list, err, tt.want)
		}
	}
}

func TestAllowedSignersByteOrderMark(t *testing.T) {
	list, err := sign.ParseAllowedSigners([]byte("\ufeff# mine\nalice " + newKey(t, 1).Public().Line() + "\n"))
	if err == nil || err.Error() != "line 1: it begins with a byte order mark" || list != nil {
		t.Errorf("%v, %v", list, err)
	}
}

func TestAllowedSignersLookup(t *testing.T) {
	key, other := newKey(t, 1).Public(), newKey(t, 2).Public()
	const (
		before = "2030-01-01T00:00:00Z"
		first  = "2031-02-03T00:00:00Z"
		within = "2031-06-01T00:00:00Z"
		last   = "2032-02-03T00:00:00Z"
		after  = "2033-01-01T00:00:00Z"
	)
	const dates = `valid-after="20310203",valid-before="20320203"`
	tests := []struct {
		name, options, now string // options of the lines for the key; "-" is none
		listed             bool
		refusal            string
	}{
		{"no dates", "", within, true, ""},
		{"within", dates, within, true, ""},
		{"the first second", dates, first, true, ""},
		{"the last second", dates, last, true, ""},
		{"too late", dates, after, true, "it was valid until 2032-02-03T00:00:00Z"},
		{"too early", dates, before, true, "it is not valid before 2031-02-03T00:00:00Z"},
		{"a second late", `valid-before="20310203"`, "2031-02-03T00:00:01Z", true, "it was valid until 2031-02-03T00:00:00Z"},
		{"a millisecond late", `valid-before="20310203"`, "2031-02-03T00:00:00.001Z", true, "it was valid until 2031-02-03T00:00:00Z"},
		{"one of two lines holds", `valid-before="20300102"|` + dates, within, true, ""},
		{"the other one holds", dates + `|valid-before="20300102"`, within, true, ""},
		{"neither holds", `valid-before="20300102"|` + dates, after, true, "it was valid until 2032-02-03T00:00:00Z"},
		{"not listed", "-", within, false, ""},
		{"for other uses", `namespaces="git"`, within, false, ""},
		{"for other uses, expired", `namespaces="git",valid-before="20300102"`, within, false, ""},
		{"expired here, valid elsewhere", `valid-before="20300102"|namespaces="git,file"`, within, true, "it was valid until 2030-01-02T00:00:00Z"},
		{"for several uses", `namespaces="git,gaia"`, within, true, ""},
		{"for all uses", `namespaces="*"`, within, true, ""},
		{"for some uses", `namespaces="g?i*"`, within, true, ""},
		{"for uses of longer names", `namespaces="gaia2,?gaia"`, within, false, ""},
		{"for all uses but this", `namespaces="*,!gaia"`, within, false, ""},
		{"for all uses but another", `namespaces="!git,*"`, within, true, ""},
		{"but another, and no more", `namespaces="!git"`, within, false, ""},
	}
	for _, tt := range tests {
		text := "bob " + other.Line() + "\n"
		for _, options := range strings.Split(tt.options, "|") {
			if options != "-" {
				text += "alice " + options + " " + key.Line() + "\n"
			}
		}
		list, err := sign.ParseAllowedSigners([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		listed, refusal := list.Lookup(key, at(t, tt.now))
		if listed != tt.listed || (refusal == nil) != (tt.refusal == "") || refusal != nil && refusal.Error() != tt.refusal {
			t.Errorf("%s: %v, %v", tt.name, listed, refusal)
		}
	}
}

// TestOpenSSHReadsAllowedSigners: ssh-keygen understands the lines as they are
// written here, and refuses for the same dates and uses.
func TestOpenSSHReadsAllowedSigners(t *testing.T) {
	program, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not on PATH: allowed_signers are not checked with OpenSSH")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "signing")
	key, err := sign.CreateKey(path, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	message := filepath.Join(dir, "message")
	if err := os.WriteFile(message, []byte("message"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, "-q", "-Y", "sign", "-n", sign.Namespace, "-f", path, message).CombinedOutput(); err != nil {
		t.Skipf("this ssh-keygen does not sign: %v, %s", err, out)
	}
	list := filepath.Join(dir, "allowed_signers")
	for _, tt := range []struct {
		name   string
		signer sign.AllowedSigner
	}{
		{"no limits", sign.AllowedSigner{}},
		{"with a comment", sign.AllowedSigner{Comment: "two words"}},
		{"for this use", sign.AllowedSigner{Namespaces: "file," + sign.Namespace}},
		{"for another use", sign.AllowedSigner{Namespaces: "file"}},
		{"within", sign.AllowedSigner{Namespaces: sign.Namespace, ValidAfter: at(t, "2001-02-03T04:05:06Z"), ValidBefore: at(t, "2100-02-03T04:05:06Z")}},
		{"expired", sign.AllowedSigner{ValidBefore: at(t, "2001-02-03T04:05:06Z")}},
		{"not yet valid", sign.AllowedSigner{ValidAfter: at(t, "2100-02-03T04:05:06Z")}},
	} {
		tt.signer.Principals, tt.signer.Key = "alice@lab.example", key.Public()
		if err := os.WriteFile(list, []byte(tt.signer.Line()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		ours := tt.signer.Applies() && tt.signer.At(time.Now()) == nil
		cmd := exec.Command(program, "-Y", "verify", "-f", list, "-I", "alice@lab.example", "-n", sign.Namespace, "-s", message+".sig")
		cmd.Stdin = strings.NewReader("message")
		out, err := cmd.CombinedOutput()
		if (err == nil) != ours {
			t.Errorf("%s: ssh-keygen says %v, %s; we trust it: %v", tt.name, err, out, ours)
		}
	}
}

func FuzzParseAllowedSigners(f *testing.F) {
	line := newKey(f, 1).Public().Line()
	f.Add([]byte("# a\nalice " + line + " comment\n"))
	f.Add([]byte(`alice,b@c valid-after="20310203Z",valid-before="20310204050607" ` + line))
	f.Add([]byte(`a namespaces="gaia,!git",valid-after="203102030405Z" ` + line + "\r\n\r\n"))
	f.Add([]byte("a cert-authority " + line))
	f.Fuzz(func(t *testing.T, content []byte) {
		list, err := sign.ParseAllowedSigners(content)
		if err != nil {
			if list != nil {
				t.Fatal("a list beside an error")
			}
			return
		}
		rows := strings.Count(string(content), "\n") + 1
		for _, s := range list {
			if s.Row < 1 || s.Row > rows {
				t.Fatalf("line %d of %d", s.Row, rows)
			}
			again, err := sign.ParseAllowedSigners([]byte(s.Line()))
			if err != nil || len(again) != 1 {
				t.Fatalf("%q does not read back: %v", s.Line(), err)
			}
			back := again[0]
			back.Row = s.Row
			if back.Line() != s.Line() || !back.Key.Equal(s.Key) || back.Principals != s.Principals || back.Namespaces != s.Namespaces || back.Comment != s.Comment ||
				!back.ValidAfter.Equal(s.ValidAfter) || !back.ValidBefore.Equal(s.ValidBefore) {
				t.Fatalf("%+v reads back as %+v", s, back)
			}
		}
	})
}
