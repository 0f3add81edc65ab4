// Package planfolder writes and reads the folder that gaia plan makes, by which the shards of a run are run elsewhere.
//
// The folder has the signed plan, the settings that it needs, where things were (plan.json, signed by the plan's key) and
// one key for each shard, with the delegation by which the plan's key lets it sign that shard. Gold answers and salts
// never enter it: the salts are in a file beside it, which only merging reads. TestNoGold searches every file.
//
// [Write] makes both whole or not at all. [Open] verifies what it reads and follows no link; the key of a shard is read
// when that shard is run, so a folder works with the keys of its machine alone. docs/formats.md lists the files.
package planfolder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// The files of a plan folder, besides those of [plan].
const (
	PlacesFile   = "plan.json"
	EnvelopeFile = "plan.dsse.json" // of PlacesFile
	SettingsFile = "settings.yaml"
	KeysDir      = "keys"
)

// PlacesType is the DSSE payload type of [PlacesFile].
const PlacesType = "application/vnd.gaia-harness.plan+json"

const (
	placesSchema  = "gaia.plan/1"
	privateSchema = "gaia.plan-private/1"
)

// Limits of the files in bytes.
const (
	maxPlaces   = 64 << 10
	maxSettings = 64 << 10
	maxPrivate  = 4 << 10
)

// Places is what plan.json contains: where the things are that the plan does not hold, as gaia plan was given them, and
// the rates of the whole run.
type Places struct {
	BaseURL        string `json:"base_url,omitzero"`
	Cassette       string `json:"cassette,omitzero"`
	ManifestSHA256 string `json:"manifest_sha256"`
	Prices         string `json:"prices,omitzero"`
	RPM            int64  `json:"rpm,omitzero"` // requests a minute of all shards; left out: no limit
	Schema         string `json:"schema"`
	SearXNG        string `json:"searxng_url,omitzero"`
	SettingsSHA256 string `json:"settings_sha256,omitzero"` // of SettingsFile; left out: the plan needs none
	Source         string `json:"source"`
	TPM            int64  `json:"tpm,omitzero"` // tokens a minute, likewise
}

// Parts are what a plan folder is made of.
type Parts struct {
	Places
	Plan               plan.Plan
	Manifest, Envelope []byte
	AgentFiles         []byte // of an own agent; nil: the plan has none
	Settings           []byte // of SettingsFile; nil: the plan needs none
	Salts              grading.Salts
	Key                sign.Key // of the plan
	Rand               io.Reader
	Redact             trajectory.Redactor // knows the secrets that may not enter the folder
}

// Folder is a plan folder that was read.
type Folder struct {
	Places
	Dir                string
	Plan               plan.Plan
	Manifest, Envelope []byte
	ManifestSHA256     string
	EnvelopeSHA256     string
	Key                sign.PublicKey    // of the plan; whether it is trusted is not checked
	Settings           []byte            // nil: the plan needs none
	Files              map[string][]byte // all files but the keys, as they were read: what another machine needs
}

// Signed returns the plan of the folder.
func (f *Folder) Signed() rundir.SignedPlan {
	return rundir.SignedPlan{Plan: f.Plan, Manifest: f.Manifest, Envelope: f.Envelope, ManifestSHA256: f.ManifestSHA256, EnvelopeSHA256: f.EnvelopeSHA256, Key: f.Key}
}

// Release gives up the bytes of the files, which are large: their digests stay.
func (f *Folder) Release() { f.Manifest, f.Envelope, f.Files = nil, nil, nil }

// PrivateFile returns the name of the file of salts of a plan folder.
func PrivateFile(dir string) string { return filepath.Clean(dir) + ".private" }

// private is what that file contains.
type private struct {
	ManifestSHA256 string        `json:"manifest_sha256"`
	Salts          grading.Salts `json:"salts"`
	Schema         string        `json:"schema"`
}

// CheckNew returns an error of usage if a plan folder cannot be made at dir.
func CheckNew(dir string) error {
	dir = filepath.Clean(dir)
	for _, path := range []string{dir, PrivateFile(dir)} {
		if _, err := os.Lstat(path); err == nil {
			return exit.Usagef("give another name by --out", "%q already exists and is not overwritten", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Write makes a plan folder at dir, and the file of salts beside it. Neither may exist.
func Write(dir string, p Parts) (err error) {
	dir = filepath.Clean(dir)
	if err := CheckNew(dir); err != nil {
		return err
	}
	files, err := p.files()
	if err != nil {
		return err
	}
	digest := canonical.Digest(p.Manifest)
	salts, err := canonical.Encode(private{digest, p.Salts, privateSchema})
	if err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(parent, ".new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	keys := filepath.Join(temporary, KeysDir)
	if err := errors.Join(os.Mkdir(keys, 0o700), os.Chmod(temporary, 0o755)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := write(filepath.Join(temporary, name), files[name], 0o644); err != nil {
			return err
		}
	}
	for index := 1; index <= p.Plan.Shards; index++ {
		content, err := p.keyFile(digest, index)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(keys, strconv.Itoa(index)), content, 0o600); err != nil {
			return err
		}
	}
	if err := errors.Join(durable.SyncDir(keys), durable.SyncDir(temporary)); err != nil {
		return err
	}
	if _, err := Open(temporary); err != nil {
		return fmt.Errorf("reading the plan that was written: %w", err)
	}
	aside, err := durable.WriteAside(parent, salts, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(aside)
	// The salts come first: a plan without them could never be merged.
	if err := durable.PutNew(aside, PrivateFile(dir)); err != nil {
		return err
	}
	if err := os.Rename(temporary, dir); err != nil {
		return errors.Join(fmt.Errorf("putting the plan folder in its place: %w", err), os.Remove(PrivateFile(dir)))
	}
	return durable.SyncDir(parent)
}

// files returns the files of the folder but the keys; a *plan.SecretError if one would hold a secret.
func (p Parts) files() (map[string][]byte, error) {
	for where, text := range map[string]string{"--base-url": p.BaseURL, "--cassette": p.Cassette, "--prices": p.Prices, "--searxng-url": p.SearXNG, "--dataset": p.Source, "mcp of the settings": string(p.Settings)} {
		if _, hidden := p.Redact.Redact(text); hidden > 0 {
			return nil, &plan.SecretError{Where: where}
		}
	}
	files := map[string][]byte{plan.ManifestFile: p.Manifest, plan.EnvelopeFile: p.Envelope, plan.ConstitutionFile: policy.Constitution(p.Plan.Policy)}
	p.Places.ManifestSHA256, p.Schema = canonical.Digest(p.Manifest), placesSchema
	if p.Settings != nil {
		files[SettingsFile], p.SettingsSHA256 = p.Settings, canonical.Digest(p.Settings)
	}
	if p.Plan.Agent != nil {
		files[plan.AgentFilesFile] = p.AgentFiles
	}
	places, err := canonical.Encode(p.Places)
	if err != nil {
		return nil, err
	}
	files[PlacesFile] = places
	files[EnvelopeFile], err = sign.Seal(p.Key, PlacesType, places)
	return files, err
}

// keyFile makes the key of a shard and returns the content of its file: the key, and a line with its delegation.
func (p Parts) keyFile(digest string, index int) ([]byte, error) {
	key, err := sign.NewKey(p.Rand)
	if err != nil {
		return nil, err
	}
	content, err := key.Encode()
	if err != nil {
		return nil, err
	}
	shard := trajectory.Shard{Index: index, Key: key.Public().Line(), Of: p.Plan.Shards}
	envelope, err := p.Plan.NewDelegation(digest, shard).Sign(p.Key)
	return append(append(content, envelope...), '\n'), err
}

// write writes a new file durably.
func write(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// Open reads a plan folder. What its plan's key did not sign, or is of another plan, is a *trajectory.Fault; what is no
// plan folder an error of usage.
func Open(dir string) (*Folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	const hint = "gaia plan -o DIR makes a plan folder"
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, exit.Usagef(hint, "there is no plan folder at %q", dir)
	}
	defer root.Close()
	if _, err := root.Lstat(PlacesFile); errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Usagef(hint, "%q is no plan folder: it has no %s", dir, PlacesFile)
	}
	f := &Folder{Dir: dir, Files: map[string][]byte{}}
	return f, f.read(root.FS())
}

func (f *Folder) read(dir fs.FS) (err error) {
	p, err := rundir.ReadSigned(dir, nil)
	if err != nil {
		return err
	}
	f.Plan, f.Manifest, f.Envelope, f.ManifestSHA256, f.EnvelopeSHA256, f.Key = p.Plan, p.Manifest, p.Envelope, p.ManifestSHA256, p.EnvelopeSHA256, p.Key
	f.Files[plan.ManifestFile], f.Files[plan.EnvelopeFile] = p.Manifest, p.Envelope
	limits := map[string]int64{plan.ConstitutionFile: plan.MaxConstitution, PlacesFile: maxPlaces, EnvelopeFile: 2 * maxPlaces}
	if f.Plan.Agent != nil {
		limits[plan.AgentFilesFile] = plan.MaxAgentList
	}
	read := func(name string) (err error) {
		f.Files[name], err = rundir.ReadFile(dir, name, limits[name])
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if err := read(name); err != nil {
			return err
		}
	}
	if err := canonical.Decode(f.Files[PlacesFile], &f.Places); err != nil {
		return trajectory.Faultf(PlacesFile, "%v", err)
	}
	signed, err := sign.Unseal(f.Files[EnvelopeFile], PlacesType, f.Key)
	switch p := f.Places; {
	case err != nil:
		return trajectory.Faultf(EnvelopeFile, "%v", err)
	case !bytes.Equal(signed, f.Files[PlacesFile]):
		return trajectory.Faultf(PlacesFile, "is not what "+EnvelopeFile+" signs")
	case p.Schema != placesSchema:
		return trajectory.Faultf(PlacesFile, "schema is %q, not %q", p.Schema, placesSchema)
	case p.ManifestSHA256 != f.ManifestSHA256:
		return trajectory.Faultf(PlacesFile, "is of another plan")
	case f.Plan.Shards == 0:
		return trajectory.Faultf(plan.ManifestFile, "is of a run without shards")
	case p.RPM < 0 || p.TPM < 0 || p.RPM > 0 && p.RPM < int64(f.Plan.Shards) || p.TPM > 0 && p.TPM < int64(f.Plan.Shards):
		return trajectory.Faultf(PlacesFile, "has a rate below one for each shard")
	case f.Plan.Agent != nil && canonical.Digest(f.Files[plan.AgentFilesFile]) != f.Plan.Agent.FilesSHA256:
		return trajectory.Faultf(plan.AgentFilesFile, "is not the list of files that the plan names")
	}
	if f.SettingsSHA256 == "" {
		return nil
	}
	limits[SettingsFile] = maxSettings
	if err := read(SettingsFile); err != nil {
		return err
	}
	if f.Settings = f.Files[SettingsFile]; canonical.Digest(f.Settings) != f.SettingsSHA256 {
		return trajectory.Faultf(SettingsFile, "is not what "+PlacesFile+" names")
	}
	return nil
}

// Rate returns what a shard has of a rate of the whole run: at least 1, and together no more than the rate.
func (f *Folder) Rate(s trajectory.Shard, rate int64) int64 { return Rate(f.Plan, s, rate) }

// Rate is [Folder.Rate] for a plan that is not written yet.
func Rate(m plan.Plan, s trajectory.Shard, rate int64) int64 {
	if rate == 0 {
		return 0
	}
	return 1 + m.Part(s, rate-int64(m.Shards))
}

// Shard returns the delegation of a shard, its envelope, and the key that it names. keyFile is where the key is; "" is its
// place in the folder.
func (f *Folder) Shard(index int, keyFile string) (d plan.Delegation, envelope []byte, key sign.Key, err error) {
	refuse := func(err error) (plan.Delegation, []byte, sign.Key, error) {
		return plan.Delegation{}, nil, sign.Key{}, err
	}
	const moved = "give the place of the key by --shard-key FILE"
	name := KeysDir + "/" + strconv.Itoa(index)
	if keyFile == "" {
		keyFile = filepath.Join(f.Dir, KeysDir, strconv.Itoa(index))
		for _, path := range []string{filepath.Dir(keyFile), keyFile} { // a link could lead to the key of another plan
			if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				return refuse(trajectory.Faultf(name, "is not a regular file"))
			}
		}
	}
	key, rest, err := sign.LoadKeyBefore(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return refuse(exit.Usagef(moved, "there is no key of shard %d at %q", index, keyFile))
	}
	if err != nil {
		return refuse(err)
	}
	envelope = bytes.TrimSuffix(rest, []byte("\n"))
	d, public, err := f.Plan.ReadDelegation(envelope, f.ManifestSHA256, f.Key)
	switch {
	case err != nil:
		return refuse(fmt.Errorf("reading the key %q: %w", keyFile, err))
	case !public.Equal(key.Public()):
		return refuse(trajectory.Faultf(name, "the delegation is of another key"))
	case d.Shard.Of != f.Plan.Shards || d.Shard.Index != index:
		return refuse(exit.Usagef(moved, "the key %q is of %s, not of shard %d", keyFile, d, index))
	}
	return d, envelope, key, nil
}

// Salts reads the file of salts beside the folder.
func (f *Folder) Salts() (grading.Salts, error) {
	path := PrivateFile(f.Dir)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return grading.Salts{}, exit.Usagef("put the file there that gaia plan wrote beside the plan folder", "there is no %q, without which no answer can be compared with the plan", path)
	case err != nil:
		return grading.Salts{}, err
	case info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0:
		return grading.Salts{}, &sign.PermissionError{What: "file of salts", Path: path, Mode: info.Mode().Perm()}
	}
	data, err := rundir.ReadFile(os.DirFS(filepath.Dir(path)), filepath.Base(path), maxPrivate)
	var p private
	if err == nil {
		err = canonical.Decode(data, &p)
	}
	switch {
	case err != nil:
		return grading.Salts{}, fmt.Errorf("reading %q: %w", path, err)
	case p.Schema != privateSchema || p.ManifestSHA256 != f.ManifestSHA256 || p.Salts.Rehearsal != f.Plan.Rehearsal:
		return grading.Salts{}, trajectory.Faultf(filepath.Base(path), "is of another plan")
	}
	return p.Salts, nil
}
