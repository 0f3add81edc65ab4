package sign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
)

const pemPublic = "PUBLIC KEY"

// PEM returns the key as a PEM block with its SubjectPublicKeyInfo (RFC 8410), the form that openssl and cosign read.
func (p PublicKey) PEM() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(p.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: der}), nil
}

// ParsePublicFile reads a file that holds one public key: an OpenSSH line, or the PEM block that [PublicKey.PEM]
// writes, in exactly that form but for white space around it. The error never quotes the content, which may be a
// private key given by mistake.
func ParsePublicFile(content []byte) (PublicKey, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return ParsePublicKey(string(content))
	}
	if block.Type != pemPublic {
		if bytes.HasSuffix([]byte(block.Type), []byte("PRIVATE KEY")) {
			return PublicKey{}, errors.New("a private key, where its public half belongs")
		}
		return PublicKey{}, errors.New("a PEM block that is no public key")
	}
	decoded, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return PublicKey{}, errors.New("a PEM block that is no public key")
	}
	raw, ok := decoded.(ed25519.PublicKey)
	if !ok {
		return PublicKey{}, errors.New("a PEM public key, but not an ed25519 one")
	}
	key, err := NewPublicKey(raw)
	if err != nil {
		return PublicKey{}, err
	}
	text, err := key.PEM()
	if err != nil {
		return PublicKey{}, err
	}
	// One form only: no headers, no second block, nothing before or after.
	plain := bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))
	if !bytes.Equal(bytes.TrimSpace(plain), bytes.TrimSpace(text)) {
		return PublicKey{}, errors.New("not one PEM public key block and nothing else")
	}
	return key, nil
}
