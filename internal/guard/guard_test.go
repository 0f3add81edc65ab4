package guard

import (
	"errors"
	"net/netip"
	"testing"
)

func TestIsPublic(t *testing.T) {
	no := []string{
		"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "169.254.0.1", "100.64.0.1", "100.100.100.200", "100.127.255.255", "168.63.129.16", "192.0.0.192", "192.0.2.1",
		"198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
		"64:ff9b:1::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001::1", "2001:db8::1", "2002:7f00:1::1", "100::1", "3fff::1",
	}
	for _, a := range no {
		if isPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s counts as public", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.32.0.1", "198.20.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::1", "64:ff9b::101:101", "::ffff:1.1.1.1"} {
		if !isPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s does not count as public", a)
		}
	}
}

// The address is looked at after the name was resolved, at the moment of
// connecting.
func TestCheckResolved(t *testing.T) {
	for resolved, ok := range map[string]bool{"93.184.216.34:80": true, "[2606:4700::1111]:443": true, "127.0.0.1:80": false, "[::1]:80": false, "[fe80::1%lo]:80": false, "10.0.0.1:443": false, "/run/socket": false} {
		if err := checkResolved("rebound.example", resolved); (err == nil) != ok {
			t.Errorf("%s: %v", resolved, err)
		}
	}
}

// An exception is of exactly one host and port, and leads to this machine.
func TestExceptions(t *testing.T) {
	g := New(map[string]string{"Almanac.example:80": "127.0.0.1:1", "wide.example:80": "192.168.0.1:80", "named.example:80": "localhost:1"}, "Engine.internal:8080")
	for _, address := range []string{"almanac.example:80", "ALMANAC.example:80", "engine.internal:8080"} {
		if err := g.Check(address); err != nil {
			t.Error(err)
		}
	}
	for _, address := range []string{"almanac.example:81", "almanac.example:443", "almanac.example.:80", "x.almanac.example:80"} {
		if _, ok := g.exceptions[address]; ok {
			t.Errorf("%s counts as the exception", address)
		}
	}
	for _, address := range []string{"wide.example:80", "named.example:80", "engine.internal:80", "127.0.0.1:1", "[::1]:8080", "almanac:80"} {
		if c, err := g.Dial(t.Context(), "tcp", address); !errors.As(err, new(*NotPublic)) {
			t.Errorf("%s: %v, %v", address, c, err)
		}
	}
}

// TestOffline: a rehearsal connects to its own hosts and to nothing else.
func TestOffline(t *testing.T) {
	g := New(map[string]string{"almanac.example:443": "127.0.0.1:1"}, "chosen.example:8080")
	g.Offline = true
	for address, ok := range map[string]bool{"Almanac.example:443": true, "chosen.example:8080": true, "almanac.example:80": false, "example.org:443": false, "1.1.1.1:443": false} {
		if err := g.Check(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}
