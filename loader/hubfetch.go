package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A hubFile is what the hub says of a file before it gives it.
type hubFile struct {
	path   string
	commit string
	digest string // SHA-256, or git's SHA-1 of a blob, hex
	size   int64  // -1 = not said
}

// lockNotice is how long another process is waited for without a word.
const lockNotice = 2 * time.Second

// damaged is what can be done about bytes that are not those that were promised.
const damaged = "try again later; if it stays so, the hub, or what stands between, damages the file"

// maxFileBytes bounds a file of a dataset, so that a hub cannot fill the disk with one.
const maxFileBytes = 4 << 30

// ask returns what the hub says of a file. Where the file does not exist, the error wraps fs.ErrNotExist and the commit
// is set all the same, if the hub told it.
func (h *hub) ask(ctx context.Context, revision, name string) (file hubFile, err error) {
	err = h.retry(ctx, func() error {
		answer, err := h.request(ctx, http.MethodHead, revision, name, 0)
		if err != nil {
			return err
		}
		answer.Body.Close()
		file = hubFile{path: name, commit: answer.Header.Get("X-Repo-Commit"), size: answer.ContentLength}
		if !isCommit(file.commit) {
			file.commit = ""
		}
		if err := h.refusal(answer, revision, name); err != nil {
			return err
		}
		file.digest = etag(answer.Header.Get("X-Linked-Etag"))
		if file.digest == "" {
			file.digest = etag(answer.Header.Get("ETag"))
		}
		if linked := answer.Header.Get("X-Linked-Size"); linked != "" {
			if file.size, err = strconv.ParseInt(linked, 10, 64); err != nil {
				file.size = -1
			}
		} else if answer.StatusCode != http.StatusOK {
			file.size = -1 // what it says is the length of the redirect
		}
		if file.size > maxFileBytes {
			return sourceErrorf("see "+h.Endpoint+"/datasets/"+h.Repo+"/tree/"+revision, "the hub says that %s has %d bytes, which no file of a dataset like GAIA has", name, file.size)
		}
		if file.commit == "" || newHash(file.digest, 0) == nil {
			return &SourceError{Reason: fmt.Sprintf("what answers at %s is no hub: it names no commit, or no digest, for %s", h.base.Host, name),
				Remedies: []string{"check HF_ENDPOINT, and that no proxy or login page stands between"}, cause: errNotGiven}
		}
		return nil
	})
	return file, err
}

// askAt returns what the hub says of a file of a commit.
func (h *hub) askAt(ctx context.Context, commit, name string) (hubFile, error) {
	file, err := h.ask(ctx, commit, name)
	if err == nil && file.commit != commit {
		return hubFile{}, sourceErrorf("check HF_ENDPOINT", "asked for commit %s, the hub answers with %s", commit, file.commit)
	}
	return file, err
}

// etag returns the value of an entity tag, without its quotes.
func etag(s string) string { return strings.Trim(strings.TrimPrefix(s, "W/"), `"`) }

// fetch brings a file into the cache, going on where an earlier fetch was interrupted.
func (h *hub) fetch(ctx context.Context, commit, name string) error {
	file, err := h.askAt(ctx, commit, name)
	if err != nil {
		return err
	}
	err = h.keep(ctx, file)
	if refused := (*SourceError)(nil); err == nil || ctx.Err() != nil || errors.As(err, &refused) {
		return err
	}
	failed := inCache(err)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		failed.cause = errNotGiven // what such a cache has is all that is to be had
		h.Notice(failed.Reason)
	}
	return failed
}

// keep makes a file one of the cache's.
func (h *hub) keep(ctx context.Context, file hubFile) error {
	waiting := time.AfterFunc(lockNotice, func() { h.Notice("another process is fetching " + file.path + "; waiting for it") })
	unlock, err := h.kept.lock(ctx, file.digest)
	waiting.Stop()
	if err != nil {
		return err
	}
	defer unlock()
	blob := h.kept.blob(file.digest)
	if _, err := os.Stat(blob); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(blob), 0o777); err != nil {
			return err
		}
		if err := h.retry(ctx, func() error { return h.download(ctx, file, blob) }); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return h.kept.link(file.commit, file.path, file.digest)
}

// download makes one try at fetching what is still missing of a file.
func (h *hub) download(ctx context.Context, file hubFile, blob string) error {
	// A link would have what it leads to overwritten, which others can choose where the cache is shared.
	f, err := os.OpenFile(blob+".incomplete", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q is not a regular file", f.Name())
	}
	if err != nil {
		return err
	}
	have := info.Size()
	if have > file.size {
		have = 0 // of another file, or there is no telling
	}
	if have < file.size || file.size < 0 {
		if err := h.receive(ctx, file, f, have); err != nil {
			return err
		}
	}
	sum, err := digestOf(ctx, f, file.digest)
	if err == nil {
		info, err = f.Stat()
	}
	if err != nil {
		return err
	}
	if sum != file.digest {
		_ = f.Truncate(0) // what an earlier try left may be to blame, and is not to be gone on with
		return &SourceError{
			Reason:   fmt.Sprintf("what the hub sends as %s has the digest %s, where it promises %s", file.path, sum, file.digest),
			Remedies: []string{damaged},
			again:    have > 0,
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), blob); err != nil {
		return err
	}
	h.Progress(Progress{Path: file.path, Done: info.Size(), Size: info.Size(), Kept: true})
	return nil
}

// receive asks for the bytes of a file that follow the first have ones and writes them to f.
func (h *hub) receive(ctx context.Context, file hubFile, f *os.File, have int64) error {
	answer, err := h.request(ctx, http.MethodGet, file.commit, file.path, have)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := h.refusal(answer, file.commit, file.path); err != nil {
		return err
	}
	anew := false
	switch part := answer.Header.Get("Content-Range"); {
	case answer.StatusCode == http.StatusOK:
		have = 0
	case answer.StatusCode != http.StatusPartialContent || !strings.HasPrefix(part, fmt.Sprintf("bytes %d-", have)):
		have, anew = 0, true
	}
	if err := f.Truncate(have); err != nil {
		return err
	}
	if anew {
		return &SourceError{Reason: fmt.Sprintf("the hub answers %d %s to a request for %s", answer.StatusCode, http.StatusText(answer.StatusCode), file.path), Remedies: []string{damaged}, again: true}
	}
	if _, err := f.Seek(have, io.SeekStart); err != nil {
		return err
	}
	if file.size < 0 {
		file.size = answer.ContentLength // of the whole: nothing is resumed where the size is not known
	}
	limit := int64(maxFileBytes)
	if file.size >= 0 {
		limit = file.size - have
	}
	in := &arriving{in: answer.Body, done: have, say: func(done int64) { h.Progress(Progress{Path: file.path, Done: done, Size: file.size}) }}
	n, err := io.Copy(f, io.LimitReader(in, limit+1))
	switch {
	case in.err != nil:
		return h.unreachable(ctx, answer.Request.URL.Host, in.err)
	case err != nil:
		return err
	case n > limit || file.size >= 0 && n < limit:
		if n > limit {
			_ = f.Truncate(0)
		}
		return &SourceError{Reason: fmt.Sprintf("%d bytes or more of %s came, where the hub promises %d", have+n, file.path, file.size),
			Remedies: []string{damaged}, again: true}
	}
	return nil
}

// arriving counts what is read, and keeps the error that is not the end.
type arriving struct {
	in   io.Reader
	done int64
	say  func(int64)
	err  error
}

func (a *arriving) Read(b []byte) (int, error) {
	n, err := a.in.Read(b)
	if a.done += int64(n); n > 0 {
		a.say(a.done)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		a.err = err
	}
	return n, err
}
