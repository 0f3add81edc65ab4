package intercept

import (
	"crypto/x509"
	"fmt"
	"testing"
	"time"
)

// TestAuthority: certificates are valid for their host alone, as long as the authority, and a bounded number is kept.
func TestAuthority(t *testing.T) {
	now := time.Now()
	a, err := NewAuthority(now)
	must(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(a.PEM()) {
		t.Fatal("the authority is no PEM")
	}
	for _, host := range []string{"almanac.example", "93.184.216.34", "2606:4700::1111"} {
		config, err := a.config(host)
		must(t, err)
		leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
		must(t, err)
		for at, valid := range map[time.Time]bool{now: true, now.Add(AuthorityTime - time.Minute): true, now.Add(AuthorityTime + time.Minute): false} {
			if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: at}); (err == nil) != valid {
				t.Errorf("%s at %s: %v", host, at, err)
			}
		}
		if leaf.VerifyHostname("other.example") == nil || leaf.IsCA {
			t.Errorf("the certificate of %s is valid for more", host)
		}
		if again, _ := a.config(host); again != config {
			t.Errorf("the certificate of %s is not kept", host)
		}
	}
	for i := range mostLeaves + 1 {
		if _, err := a.config(fmt.Sprintf("host%d.example", i)); err != nil || len(a.configs) > mostLeaves {
			t.Fatalf("%d are kept, %v", len(a.configs), err)
		}
	}
}
