package viewer

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/visible"
)

// A token is traded for a cookie at tokenPath, which leads to openPath, which leads to the first page.
const (
	tokenPath = "/token"
	openPath  = "/open"
)

// Bounds of what a door remembers.
const (
	maxUsed     = 256
	maxSessions = 64
)

// door decides who may read: Host first, then the method, then the cookie.
type door struct {
	mu       sync.Mutex
	unused   string              // token
	used     [][sha256.Size]byte // digests of tokens, the latest last
	sessions [][sha256.Size]byte // digests of cookies, the latest last

	renewing sync.Mutex // held while another token is told, so that the last one told is the unused one
	renewed  func()     // called when there is another token; nil: no one

	host     string // with port, as addresses have it
	names    []string
	loopback bool
	secure   bool // TLS
	cookie   string
}

// newSecret returns 256 random bits as text.
func newSecret() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// bind sets the names that the door answers to: those of loopback, and the host that the user named, or "".
func (d *door) bind(at *net.TCPAddr, named string, secure bool) {
	port, standard := strconv.Itoa(at.Port), "80"
	d.loopback, d.secure = at.IP.IsLoopback(), secure
	d.cookie = "gaia-" + port // cookies do not distinguish ports
	if secure {
		standard, d.cookie = "443", "__Host-gaia-"+port
	}
	if named == "" {
		named = at.IP.String()
	}
	d.host = net.JoinHostPort(named, port)
	d.names = nil
	for _, name := range []string{"127.0.0.1", "::1", "localhost", named} {
		whole := strings.ToLower(net.JoinHostPort(name, port))
		d.names = append(d.names, whole)
		if port == standard { // browsers leave it out
			d.names = append(d.names, strings.TrimSuffix(whole, ":"+port))
		}
	}
}

// token returns the token that was not used.
func (d *door) token() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unused
}

// headers are of every answer. Handlers add those of their content.
var headers = map[string]string{
	"Cache-Control":                "no-store",
	"Content-Security-Policy":      "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
}

// guard passes on the requests of who may read. A panic ends one request, and is reported to log.
func (d *door) guard(next http.Handler, log func(string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				log(visible.Text(fmt.Sprintf("%s: panic: %v\n%s", r.URL.Path, p, debug.Stack())))
				refuse(w, http.StatusInternalServerError, "the server failed at this page, and reported why where it runs") // nothing if the answer has begun
			}
		}()
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		switch {
		case !slices.Contains(d.names, strings.ToLower(r.Host)):
			refuse(w, http.StatusForbidden, "this server does not answer to that name: open the address that 'gaia view' printed")
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "nothing here can be changed: there are only GET and HEAD")
		case r.URL.Path == tokenPath:
			d.trade(w, r)
		case !d.known(r):
			if r.URL.Path == openPath && r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") == "navigate" {
				// A page of another site led here by a token, and a strict cookie does not follow that. It does when
				// this page asks, which is no longer cross-site.
				w.Header().Set("Refresh", "0;url="+openPath)
			}
			refuse(w, http.StatusForbidden, "this browser has no access: open the address that 'gaia view' printed, or another one by 'gaia view --new-token'")
		case foreign(r):
			refuse(w, http.StatusForbidden, "the page of another server asked for this")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// foreign reports whether a page of another origin embeds what is asked for. Another port of this machine is the same
// site, so its pages have the cookie sent.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// refuse answers with a line of text.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	io.WriteString(w, text+"\n")
}

// trade gives a cookie for a token. Only the request of a browser that shows the page uses the token up.
func (d *door) trade(w http.ResponseWriter, r *http.Request) {
	for _, name := range []string{"Sec-Purpose", "Purpose", "X-Moz"} {
		if strings.Contains(strings.ToLower(r.Header.Get(name)), "pre") { // prefetch, prerender, preview
			refuse(w, http.StatusServiceUnavailable, "the token is for the page, not for a preview")
			return
		}
	}
	if r.Method == http.MethodHead {
		return
	}
	given := sha256.Sum256([]byte(r.URL.Query().Get("t")))
	d.mu.Lock()
	wanted := sha256.Sum256([]byte(d.unused))
	good := subtle.ConstantTimeCompare(given[:], wanted[:]) == 1
	spent := has(d.used, given)
	cookie := ""
	if good {
		cookie = newSecret()
		d.unused = newSecret()
		d.used = latest(append(d.used, given), maxUsed)
		d.sessions = latest(append(d.sessions, sha256.Sum256([]byte(cookie))), maxSessions)
	}
	d.mu.Unlock()
	switch {
	case good:
		http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: cookie, Path: "/", HttpOnly: true, Secure: d.secure, SameSite: http.SameSiteStrictMode})
		w.Header().Set("Location", openPath)
		w.WriteHeader(http.StatusSeeOther)
		d.renewing.Lock()
		defer d.renewing.Unlock()
		if d.renewed != nil {
			d.renewed()
		}
	case spent:
		refuse(w, http.StatusForbidden, "this address was used already, and works once: 'gaia view --new-token' prints another one")
	default:
		refuse(w, http.StatusForbidden, "this is no token of this server: 'gaia view --new-token' prints an address that works")
	}
}

// known reports whether the request has the cookie of a session.
func (d *door) known(r *http.Request) bool {
	for _, c := range r.CookiesNamed(d.cookie) {
		d.mu.Lock()
		found := has(d.sessions, sha256.Sum256([]byte(c.Value)))
		d.mu.Unlock()
		if found {
			return true
		}
	}
	return false
}

// has compares in a time that does not depend on what is in all.
func has(all [][sha256.Size]byte, one [sha256.Size]byte) bool {
	found := 0
	for _, d := range all {
		found |= subtle.ConstantTimeCompare(d[:], one[:])
	}
	return found == 1
}

// latest drops the oldest of more than n.
func latest(all [][sha256.Size]byte, n int) [][sha256.Size]byte { return all[max(0, len(all)-n):] }
