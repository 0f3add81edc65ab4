package intercept

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// AuthorityTime is how long the certificates of an authority are valid, from when it is made.
const AuthorityTime = 48 * time.Hour

const (
	clockSkew  = time.Hour // by which certificates are valid before they are made
	mostLeaves = 1000      // certificates that an authority keeps at once
)

// Authority signs the certificates that agents are shown in place of those of servers. Its keys are in memory only. Several
// attempts may use one, as long as it lasts.
type Authority struct {
	root *x509.Certificate
	key  *ecdsa.PrivateKey // of the authority
	leaf *ecdsa.PrivateKey // of all certificates that it signs

	mu      sync.Mutex
	configs map[string]*tls.Config // by host
}

// NewAuthority makes an authority, which is valid for [AuthorityTime].
func NewAuthority(now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	root := &x509.Certificate{
		Subject: pkix.Name{Organization: []string{"gaia"}, CommonName: "gaia recorded network"}, SerialNumber: serial(),
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(AuthorityTime),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if root, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return &Authority{root: root, key: key, leaf: leaf, configs: map[string]*tls.Config{}}, nil
}

// serial returns the number of a certificate, which no one can guess.
func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

// PEM returns the certificate that clients have to trust.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.root.Raw})
}

// config returns how TLS is ended for a host, a name or an IP address. Beyond mostLeaves hosts it forgets those before.
func (a *Authority) config(host string) (*tls.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.configs[host]; c != nil {
		return c, nil
	}
	leaf := &x509.Certificate{
		Subject: pkix.Name{Organization: []string{"gaia"}}, SerialNumber: serial(), NotBefore: a.root.NotBefore, NotAfter: a.root.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(host); ip != nil {
		leaf.IPAddresses = []net.IP{ip}
	} else {
		leaf.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.root, a.leaf.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	if len(a.configs) >= mostLeaves {
		clear(a.configs)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der, a.root.Raw}, PrivateKey: a.leaf}},
		NextProtos:   []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12,
	}
	a.configs[host] = c
	return c, nil
}
