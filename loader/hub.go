package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"
)

// What is meant where nothing else is said.
const (
	HubEndpoint = "https://huggingface.co"
	GAIA        = "gaia-benchmark/GAIA"
	MainBranch  = "main"
)

// HubConfig says which dataset of which hub is meant, who asks for it, and where copies are kept.
type HubConfig struct {
	Endpoint  string // URL of the hub
	Repo      string // owner/name of the dataset
	Revision  string // branch, tag or commit
	Token     string // "" = none
	TokenFrom string // where Token is from, or where one was looked for, in words
	Cache     string // the hub cache of the Python tools, an absolute path; need not exist
	Offline   bool   // ask the hub nothing

	Transport http.RoundTripper
	FirstWait time.Duration  // before a request is tried again; it doubles; 0 = half a second
	Patience  time.Duration  // for the next byte; 0 = one minute
	Notice    func(string)   // called with what a person should know though it is no error; may be nil
	Progress  func(Progress) // called as bytes come, by several goroutines at once; may be nil
}

// Progress is how far the download of one file has come.
type Progress struct {
	Path string // inside the dataset
	Done int64  // bytes, those of an earlier, interrupted download among them
	Size int64  // bytes; -1 while it is not known
	Kept bool   // it is verified and in the cache
}

// hub is a dataset on a hub, by way of a cache on this machine. It holds to the protocol and the cache layout of the
// hub's own Python client, so that either finds what the other downloaded.
type hub struct {
	HubConfig
	base *url.URL
	kept hubCache

	mu  sync.Mutex
	now string // the commit that the revision is, until the cache has recorded it; else ""
}

// Hub is a dataset on a hub. A file is fetched when it is opened and not in the cache; what is opened has been held
// against the digest that the hub gave for it. A wrong configuration is a *[SourceError], as is what the source fails by
// if a person can do something about it.
func Hub(c HubConfig) (Source, error) {
	if strings.Contains(c.Endpoint, "@") {
		return nil, sourceErrorf("give the token by HF_TOKEN", "the endpoint of the hub holds credentials, or something that looks like them")
	}
	base, err := url.Parse(c.Endpoint)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" || base.Fragment != "" {
		shown, _, cut := strings.Cut(strings.ReplaceAll(c.Endpoint, "#", "?"), "?") // what follows may be a key
		if cut {
			shown += "…"
		}
		return nil, sourceErrorf("set HF_ENDPOINT to a URL such as "+HubEndpoint, "the endpoint %q of the hub is no URL to ask at", shown)
	}
	// What the hub accepts as a name, and the cache can have as part of a directory's.
	repo := regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	switch {
	case c.Token != "" && base.Scheme == "http" && base.Hostname() != "localhost" && !net.ParseIP(base.Hostname()).IsLoopback():
		return nil, sourceErrorf("use https, or do without a token", "the token from %s would be sent to %s for all to read: its endpoint is http", c.TokenFrom, base.Host)
	case len(c.Repo) > 96 || !repo.MatchString(c.Repo) || strings.Contains(c.Repo, "--") || strings.Contains(c.Repo, ".."):
		return nil, sourceErrorf("give owner/name, such as "+GAIA, "%q does not name a dataset of the hub", c.Repo)
	case !isRevision(c.Revision):
		return nil, sourceErrorf("give a branch, a tag or a commit", "%q does not name a revision", c.Revision)
	case !filepath.IsAbs(c.Cache):
		return nil, sourceErrorf("set HF_HUB_CACHE to a directory", "no place for the cache of the hub: %q is not an absolute path", c.Cache)
	case strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, sourceErrorf("make a new one at "+c.Endpoint+"/settings/tokens", "the token from %s has characters that no token has", c.TokenFrom)
	}
	c.FirstWait, c.Patience = cmp.Or(c.FirstWait, 500*time.Millisecond), cmp.Or(c.Patience, time.Minute)
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	c.Endpoint = strings.TrimRight(c.Endpoint, "/")
	folder := "datasets--" + strings.ReplaceAll(c.Repo, "/", "--")
	kept := hubCache{root: filepath.Join(c.Cache, folder), locks: filepath.Join(c.Cache, ".locks", folder)}
	return &hub{HubConfig: c, base: base, kept: kept}, nil
}

// Resolve asks which commit the revision is. Where the hub does not say, a revision that the cache knows is taken from
// there, and a notice says so.
func (h *hub) Resolve(ctx context.Context) (Origin, error) {
	found := Origin{Hub: h.base.Scheme + "://" + h.base.Host, Dataset: h.Repo, Revision: h.Revision}
	if isCommit(h.Revision) {
		return found, nil
	}
	cached := h.kept.ref(h.Revision)
	if h.Offline {
		if found.Revision = cached; cached == "" {
			return Origin{}, h.offline(h.Revision, "revision "+h.Revision, "")
		}
		return found, nil
	}
	// The metadata's answer names the commit even where that revision lacks it, and it is given, or not, as the files
	// behind the terms are.
	file, err := h.ask(ctx, h.Revision, metadataFiles(Validation)[0])
	if err == nil || errors.Is(err, fs.ErrNotExist) && file.commit != "" {
		h.mu.Lock()
		h.now = file.commit
		h.mu.Unlock()
		found.Revision = file.commit
		return found, nil
	}
	if refused, known := errors.AsType[*SourceError](err); cached != "" && ctx.Err() == nil && known && !refused.final {
		h.Notice(fmt.Sprintf("going on with the cached copy, commit %s: %s", cached, refused))
		found.Revision = cached
		return found, nil
	}
	return Origin{}, err
}

// Open returns a file whose bytes have the digest that the hub gave for it.
func (h *hub) Open(ctx context.Context, commit, name string) (io.ReadCloser, error) {
	if !isCommit(commit) || !fs.ValidPath(name) {
		return nil, fmt.Errorf("%q at %q is no file of a dataset", name, commit)
	}
	f, digest, err := h.kept.open(commit, name)
	if errors.Is(err, fs.ErrNotExist) {
		if h.Offline {
			return nil, h.offline(commit, name+" at "+commit, name)
		}
		if err := h.fetch(ctx, commit, name); err != nil {
			return nil, err
		}
		f, digest, err = h.kept.open(commit, name)
	}
	if err != nil {
		return nil, inCache(err)
	}
	if digest == "" {
		digest, err = h.digestOf(ctx, commit, name, f.Name())
	}
	if err == nil && digest != "" {
		err = h.kept.verify(ctx, f, digest)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	// The cache records which commit the revision is once there is a file of it, and only once: hours later the revision
	// may be another commit, which others have recorded meanwhile.
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now == commit {
		// It serves those who come later and may fail: caches are also read where they cannot be written.
		name := filepath.Join(h.kept.root, "refs", filepath.FromSlash(h.Revision))
		if h.kept.ref(h.Revision) != commit && os.MkdirAll(filepath.Dir(name), 0o777) == nil {
			_ = renameio.WriteFile(name, []byte(commit), 0o644)
		}
		h.now = ""
	}
	return f, nil
}

// digestOf asks for the digest of a file that the cache has without one. Offline there is none: the
// file is taken as it is if it lies in the snapshot, and not if a link leads to it.
func (h *hub) digestOf(ctx context.Context, commit, name, place string) (string, error) {
	var file hubFile
	err := errNotCached
	if !h.Offline {
		file, err = h.askAt(ctx, commit, name)
	}
	if errors.Is(err, errNotCached) || errors.Is(err, errNotGiven) {
		if target, lerr := os.Readlink(place); lerr == nil {
			return "", sourceErrorf("go online, so that the hub can give its digest, or put the file in the place of the link",
				"%q leads to %q, whose name is no digest to verify it by", place, target)
		}
		h.Notice(fmt.Sprintf("not verified: the cache has %q without its digest", name))
		err = nil
	}
	return file.digest, err
}

// offline returns the error for what the cache does not have while the hub must not be asked.
func (h *hub) offline(revision, what, name string) error {
	fetch := "gaia tasks download --dataset hub:" + h.Repo + " --revision " + revision
	if strings.HasPrefix(name, "2023/"+string(Test)+"/") {
		fetch += " --split " + string(Test)
	}
	return &SourceError{
		Reason: fmt.Sprintf("offline, and the cache has no %s of %s", what, h.Repo),
		Remedies: []string{
			"unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE, or fetch it where there is a network: " + fetch,
			"the cache is " + h.Cache + "; HF_HUB_CACHE or HF_HOME names another",
		},
		cause: errNotCached,
		final: true,
	}
}

// inCache is a failure of the cache itself. It does not wrap err: a file that the cache lost is not one that the dataset
// does not have.
func inCache(err error) *SourceError {
	return &SourceError{Reason: fmt.Sprintf("in the cache of the hub: %v", err),
		Remedies: []string{"fix that, or set HF_HUB_CACHE or HF_HOME to another place"}}
}

// Errors of Open wrap these where a file is not in the cache: errNotCached where the hub must not be asked, errNotGiven
// where it was asked and did not give the file.
var (
	errNotCached = errors.New("not in the cache")
	errNotGiven  = errors.New("not given by the hub")
)

// isRevision accepts the names that git accepts for branches and tags, some of which lie in folders, and commits.
func isRevision(s string) bool {
	const most = 200
	if s == "" || len(s) > most || !fs.ValidPath(s) || strings.Contains(s, "..") || strings.ContainsAny(s, `\~^:?*[`) {
		return false
	}
	for _, part := range strings.Split(s, "/") {
		if strings.HasPrefix(part, ".") || strings.HasPrefix(part, "-") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func isCommit(s string) bool { return len(s) == 40 && isHex(s) }

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
