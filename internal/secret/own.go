package secret

import (
	"encoding/base64"
	"regexp"
	"strings"
	"unicode/utf8"
)

// assign is what separates a name from its value, which may be in quotes, also in JSON
// that is a text of JSON: each level doubles the escapes.
const assign = `["'\\\x60]{0,40}(?:[ \t]{0,3}(?::=|=>|[:=])[ \t]{0,3}|%(?:25){0,3}3[AaDd])["'\\\x60]{0,40}`

// ofCredential is what makes a key or a token a credential.
var ofCredential = regexp.MustCompile(`(?i)(?:access|account|admin|api|app|auth|bearer|bot|client|consumer|encryption|master|oauth|personal|private|refresh|service|session|shared|signing|subscription|webhook)[ _-]?$`)

// own are the forms that gitleaks does not have, or that it looks for in fewer places.
var own = []*rule{
	// The end may be out of sight. Also PGP's.
	{id: "private-key", keywords: []string{"private key"}, anywhere: true, form: `-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|$)`},
	// The first line, or both, may be out of sight: what DER and OpenSSH's format begin with, and lines before the last one.
	{id: "private-key-body", keywords: []string{"mii", "mhccaqeei", "mighageamb", "mc4caqaw", "b3blbnnzac1rzxktdje"}, starts: true,
		form: `(?:MII[A-Za-z0-9+/]{2,5}(?:IBAAKC|IBADANBgkqhkiG9w0BAQEFAASC)|MHcCAQEEI|MIGHAgEAMBMGByqGSM49AgEG|MC4CAQAwBQYDK2VwBCIEI|b3BlbnNzaC1rZXktdjE)[A-Za-z0-9+/]*={0,2}(?:` + lineEnd + `[A-Za-z0-9+/]{16,}={0,2})*`},
	{id: "private-key-end", keywords: []string{"private key"}, anywhere: true, form: `((?:[A-Za-z0-9+/]{16,}={0,2}` + lineEnd + `)+)-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----`},

	// Keys of model providers. sk-: OpenAI's of all ages, Anthropic's, OpenRouter's, DeepSeek's, LiteLLM's; also CSS classes.
	{id: "sk", keywords: []string{"sk-"}, form: `sk-[A-Za-z0-9_-]{20,}`, check: looksRandom},
	{id: "langfuse", keywords: []string{"sk-lf-"}, form: `sk-lf-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12,}`},
	{id: "langsmith", keywords: []string{"lsv2_"}, form: `lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10,}`, open: true},
	{id: "cerebras", keywords: []string{"csk-"}, form: `csk-[a-z0-9]{40,}`, check: hasDigit},
	{id: "elevenlabs", keywords: []string{"sk_"}, form: `sk_[0-9a-f]{48,}`, open: true},
	{id: "fireworks", keywords: []string{"fw_"}, form: `fw_[A-Za-z0-9]{22,}`, check: opaque},
	{id: "groq", keywords: []string{"gsk_"}, form: `gsk_[A-Za-z0-9]{40,}`, check: mixedCase},
	{id: "nvidia", keywords: []string{"nvapi-"}, form: `nvapi-[A-Za-z0-9_-]{40,}`, check: opaque},
	{id: "replicate", keywords: []string{"r8_"}, form: `r8_[A-Za-z0-9]{37,}`, check: opaque},
	{id: "tavily", keywords: []string{"tvly-"}, form: `tvly-[A-Za-z0-9_-]{20,}`, check: mixedCase},
	{id: "xai", keywords: []string{"xai-"}, form: `xai-[A-Za-z0-9]{60,}`, check: mixedCase},
	// Three letters are soon found in base64, so nothing of that may precede them.
	{id: "brave", keywords: []string{"bsa"}, anywhere: true, form: `(?:^[+-]?|[^A-Za-z0-9_+/-]|(?:\n|\\(?:[bfnrt]|u[0-9a-f]{4}))[+-]?|%[0-9A-Fa-f]{2})(BSA[A-Za-z0-9_-]{24,40})`, open: true, check: looksRandom},

	// Google's for OAuth.
	{id: "google-oauth", keywords: []string{"ya29.", "gocspx-"}, starts: true, form: `(?:ya29\.|GOCSPX-)[0-9A-Za-z_-]{20,}`, check: opaque},
	// gitleaks has its form outside a query.
	{id: "slack-webhook", keywords: []string{"hooks.slack.com%2"}, form: `(?:https?%[0-9A-Fa-f%]{2,24})?hooks\.slack\.com%(?:25){0,3}2[Ff](?:services|workflows|triggers)%[A-Za-z0-9+/%]{43,90}`},
	// gitleaks has a form for each kind and age.
	{id: "slack", keywords: []string{"xox"}, form: `xox[abeoprs]-[A-Za-z0-9-]{10,}`, check: hasDigit},
	{id: "pypi", keywords: []string{"pypi-ag"}, form: `pypi-Ag[A-Za-z0-9_-]{50,}`},
	{id: "doppler", keywords: []string{"dp."}, form: `dp\.(?:ct|pt|sa|st|scim|audit)\.(?:[a-z0-9_-]{2,40}\.)?[A-Za-z0-9]{40,44}`, open: true},
	{id: "figma", keywords: []string{"figd_", "figu_"}, starts: true, form: `fig[du]_[A-Za-z0-9_-]{38,}`},
	{id: "notion-old", keywords: []string{"secret_"}, form: `secret_[A-Za-z0-9]{43}`, open: true, check: opaque},
	{id: "supabase", keywords: []string{"sbp_", "sb_secret_"}, starts: true, form: `(?:sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{22,})`, open: true},
	{id: "vercel", keywords: []string{"vcp_", "vca_", "vci_", "vck_", "vcr_"}, starts: true, form: `vc[paikr]_[A-Za-z0-9]{24,}`, open: true, check: opaque},
	{id: "telegram", keywords: []string{":aa", "3aaa"}, form: `[0-9]{8,10}(?::|%(?:25){0,3}3[Aa])AA[A-Za-z0-9_-]{33}`, open: true, check: opaque},
	{id: "discord-bot", keywords: []string{"discord", "bot", "token"}, starts: true, form: `(?i:discord|bot|token)(?:[\w.-]{0,20})[ "'\\:=]{1,8}(?i:bot )?([MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40})`, open: true},

	// Azure.
	{id: "azure-client-secret", keywords: []string{"q~"}, form: `[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}`, open: true},
	{id: "azure-devops", keywords: []string{"azdo"}, form: `[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}`, open: true},
	{id: "azure-key", keywords: []string{"accountkey", "sharedaccesskey"}, starts: true, form: `(?i:(?:Account|SharedAccess)Key)(?:=|%3D)([A-Za-z0-9+/%]{30,}={0,2})`},
	{id: "azure-sas", keywords: []string{"sig="}, form: `sig=([A-Za-z0-9%+/_-]{40,}={0,2})`, check: opaque},
	// A value whose name is that of a key, as in settings, headers, JSON and code.
	{id: "aws-secret", keywords: []string{"aws", "secretaccesskey", "secret_access_key", "sessiontoken", "security-token"}, starts: true,
		form: `(?i:(?:aws[ _-]?)?(?:secret|session|security)[ _-]?(?:access[ _-]?)?(?:key|token))` + assign + `([A-Za-z0-9/+=%]{40,})`},
	{id: "assigned", keywords: []string{"key", "token", "secret", "password"}, starts: true, anywhere: true, before: ofCredential,
		form: `(?i:key|token|secret|password)` + assign + `([A-Za-z0-9_.+/~%=-]{16,})`, check: looksRandom},
	{id: "password", keywords: []string{"passw", "pwd", "secret"}, starts: true, anywhere: true,
		form: `(?i:passwd|password|pwd|secret)` + assign + `([A-Za-z0-9_.+/~%=-]{16,})`, check: looksRandom},
	{id: "variable", keywords: []string{"_key=", "_token=", "_secret=", "_password=", "_passwd=", "_pwd="}, starts: true,
		form: `_(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD)=["'\\]{0,40}([^\s"'\\$<>{}()\[\]&;,` + "`" + `]{8,})`, check: noPlaceholder, anywhere: true},
	{id: "jwt", keywords: []string{"eyj"}, form: `eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`, starts: true},
	{id: "basic", keywords: []string{"basic "}, starts: true, form: `(?i:basic) +([A-Za-z0-9+/]{12,}={0,2})`, check: basic},
	{id: "bearer", keywords: []string{"bearer "}, starts: true, form: `(?i:bearer) +([A-Za-z0-9._~+/-]{16,}=*)`, check: opaque},
	{id: "url-password", keywords: []string{"://"}, anywhere: true, form: `://[^\s/?#@:"'<>\\\[\]]*:([^\s/?#@"'<>\\\[\]]{3,})@`},
}

// lineEnd is the end of a line, also as an escape, and the sign before a line of a diff.
const lineEnd = `(?:\s|\\+[nr])+[+-]?`

// looksRandom reports whether a text is random, as keys are and slugs, words and numbers
// between hyphens, are not. Keys are drawn from an alphabet of 16 to 64 characters:
// 16 or more letters and digits in one piece, or (base64url, which may break anywhere)
// capitals, small letters and digits in turns. What is true of some text is true of
// every longer one.
func looksRandom(s string) bool {
	const separator, lower, upper, digit = 0, 1, 2, 4
	seen, inPiece, piece := 0, 0, 0
	pairs, turns, last := 0, 0, separator
	for i := range len(s) {
		class := separator
		switch c := s[i]; {
		case 'a' <= c && c <= 'z':
			class = lower
		case 'A' <= c && c <= 'Z':
			class = upper
		case '0' <= c && c <= '9':
			class = digit
		}
		if class == separator {
			inPiece, piece, last = 0, 0, separator
			continue
		}
		seen |= class
		inPiece |= class
		piece++
		if last != separator {
			pairs++
			if class != last {
				turns++
			}
		}
		last = class
		if piece >= 16 && inPiece&digit != 0 && inPiece != digit {
			return true
		}
		// In words classes change seldom: each word begins with a capital at most.
		if turns*5 >= pairs*2 && (i >= 22 && seen == lower|upper|digit || i >= 32 && seen == lower|upper) {
			return true
		}
	}
	return false
}

// mixedCase says that a key is not in one case, as identifiers are.
func mixedCase(s string) bool {
	body := s[strings.IndexAny(s, "_-")+1:]
	return body != strings.ToLower(body) && body != strings.ToUpper(body)
}

// opaque is looser than looksRandom, for forms that announce a credential.
func opaque(s string) bool {
	return looksRandom(s) || mixedCase(s) && (hasDigit(s) || len(s) >= 32)
}

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

// noWord is false of words in small letters.
func noWord(s string) bool { return hasDigit(s) || s != strings.ToLower(s) }

// noPlaceholder is false of what manuals write for a credential.
func noPlaceholder(s string) bool {
	lower := strings.ToLower(s)
	return hasDigit(s) && !strings.Contains(lower, "your") && !strings.Contains(lower, "example") && !strings.Contains(lower, "xxxx") && !strings.HasPrefix(lower, "http")
}

// basic reports whether s is a name and a password in base64.
func basic(s string) bool {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	return err == nil && strings.Contains(string(plain), ":") && !strings.ContainsFunc(string(plain), func(r rune) bool { return r < ' ' || r == utf8.RuneError })
}
