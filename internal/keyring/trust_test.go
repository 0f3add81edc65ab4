package keyring

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/sign"
)

// TestAddReadsBack: a line that could not be read is not written: with it no key
// would be trusted.
func TestAddReadsBack(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	key, err := sign.NewKey(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	other, err := sign.NewKey(bytes.NewReader(bytes.Repeat([]byte{1}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	if added, err := add(dir, sign.AllowedSigner{Principals: "alice", Key: key.Public()}); err != nil || !added {
		t.Fatal(added, err)
	}
	before, err := os.ReadFile(filepath.Join(dir, allowedFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]sign.AllowedSigner{
		"a year of five digits": {Principals: "bob", ValidBefore: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), Key: other.Public()},
		"a name of two words":   {Principals: "two words", Key: other.Public()},
	} {
		if added, err := add(dir, s); err == nil || added {
			t.Errorf("%s: written", name)
		}
		if after, err := os.ReadFile(filepath.Join(dir, allowedFile)); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s: the list holds %q, %v", name, after, err)
		}
	}
}
