package sandbox

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
)

// bundles are the files of certificates that clients read, of several systems. With the recorded network each is a link to
// AgentAuthority.
func bundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt",                // Debian
		"/etc/ssl/cert.pem",                                 // Alpine
		"/etc/ssl/ca-bundle.pem",                            // openSUSE
		"/etc/pki/tls/cert.pem",                             // Fedora
		"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora
	}
}

// trust returns the files, with their texts, and the arguments of bubblewrap by which an agent's clients trust an authority and
// no other one. Chromium and Chrome, which read no file of certificates, have it from a policy, which also switches off what
// they would ask by themselves. Debian's Chromium does not start without a file in /etc/chromium.d.
func trust(authority []byte) (texts [][2]string, links []string, err error) {
	block, rest := pem.Decode(authority)
	if block == nil || len(rest) > 0 {
		return nil, nil, errors.New("the certificate authority is not one certificate in PEM")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return nil, nil, err
	}
	policy, err := json.Marshal(map[string]any{"CACertificates": [][]byte{block.Bytes}, "BrowserNetworkTimeQueriesEnabled": false,
		"ComponentUpdatesEnabled": false, "SpellcheckEnabled": false})
	texts = [][2]string{{AgentAuthority, string(authority)}, {"/etc/chromium.d/gaia", ""}}
	for _, place := range []string{"/etc/chromium", "/etc/opt/chrome"} {
		texts = append(texts, [2]string{place + "/policies/managed/gaia.json", string(policy)})
	}
	links = []string{"--ro-bind-try", "/etc/fonts", "/etc/fonts"}
	for _, p := range bundles() {
		links = append(links, "--symlink", AgentAuthority, p)
	}
	return texts, links, err
}
