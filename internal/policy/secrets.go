package policy

import (
	"slices"
	"strings"
)

// secret returns what of key material or credentials the call names, or "".
func secret(c Call, read []reading) string {
	for _, path := range c.Paths {
		if name := namedSecret(path); name != "" {
			return name
		}
	}
	for _, url := range c.URLs {
		if name := metadataAddress(url); name != "" {
			return name
		}
		if path, ok := strings.CutPrefix(strings.ToLower(url), "file:"); ok {
			if name := secretPlace(percentDecode(path)); name != "" {
				return name
			}
		}
	}
	for _, r := range read {
		for _, name := range r.names {
			if slices.Contains(keyVariables(), name) {
				return name
			}
		}
		for _, text := range r.literals {
			if name := secretInText(text); name != "" {
				return name
			}
		}
	}
	return ""
}

// secretInText looks through a string of code: whole for an address or a variable, and in its words
// for paths and for what a shell would fill in.
func secretInText(text string) string {
	if slices.Contains(keyVariables(), text) {
		return text
	}
	if name := metadataAddress(text); name != "" {
		return name
	}
	for token := range strings.FieldsFuncSeq(text, func(r rune) bool { return betweenPaths(r) && r != '{' && r != '}' && r != '$' }) {
		if name := secretPlace(token); name != "" && !isPage(token) {
			return name
		}
		for after := token; ; {
			_, rest, found := strings.Cut(after, "$")
			if !found {
				break
			}
			after = rest
			variable := strings.TrimPrefix(rest, "{")
			if i := strings.IndexFunc(variable, func(r rune) bool { return !isName(string(r)) }); i >= 0 {
				variable = variable[:i]
			}
			if slices.Contains(keyVariables(), variable) {
				return variable
			}
		}
	}
	return ""
}

// isPage says whether a word is the address of a page, whose path is no file here.
func isPage(word string) bool {
	word = strings.ToLower(word)
	return strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://")
}

// namedSecret looks at what a tool would open: a file, or a URL in its place.
func namedSecret(path string) string {
	if name := metadataAddress(path); name != "" {
		return name
	}
	return secretPlace(path)
}

// secretPlace returns the place with secrets that a path leads to, or "".
func secretPlace(path string) string {
	path = strings.ToLower(strings.ReplaceAll(path, `\`, "/"))
	parts, _ := resolve(path)
	for _, place := range secretPlaces() {
		want := strings.Split(place, "/")
		for i := 0; i+len(want) <= len(parts); i++ {
			if placed(want, parts[i:]) && (want[0] != "proc" || i == 0 && strings.HasPrefix(path, "/") || isProcess(parts[i+1])) {
				return strings.Join(parts[i:i+len(want)], "/")
			}
		}
	}
	return ""
}

// placed says whether parts begin with a place.
func placed(want, parts []string) bool {
	for k, w := range want {
		if w != "*" && w != parts[k] && !slices.Contains(strings.Split(w, "|"), parts[k]) {
			return false
		}
	}
	return true
}

// isProcess says whether a part names a process below /proc; {} stands for one in code.
func isProcess(part string) bool {
	return part == "self" || part == "thread-self" || part == "{}" || strings.Trim(part, "0123456789") == ""
}

// metadataAddress returns the cloud's metadata address that a URL holds, or "".
func metadataAddress(url string) string {
	for _, parts := range views(url) {
		for _, address := range metadataAddresses() {
			want := strings.Split(address, "/")
			for i := 0; i+len(want) <= len(parts); i++ {
				if slices.Equal(want, parts[i:i+len(want)]) {
					return address
				}
			}
		}
	}
	return ""
}
