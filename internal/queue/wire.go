package queue

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// A request and a reply are a line with a call or a result, a line with a value, and raw bytes.
type call struct {
	ID     string `json:"id"`
	Schema string `json:"schema"`
}

type result struct {
	Error  string `json:"error,omitzero"`
	Schema string `json:"schema"`
	Status string `json:"status"`
}

// Statuses of a result.
const (
	statusOK      = "ok"
	statusRefused = "refused"
	statusAgain   = "again" // the same request is to be sent again
)

func encodeFrame(head, value any, body []byte) ([]byte, error) {
	b, err := canonical.Encode(head)
	if err == nil {
		b, err = canonical.Append(append(b, '\n'), value)
	}
	if err != nil {
		return nil, err
	}
	return append(append(b, '\n'), body...), nil
}

// cutFrame returns the two lines and the bytes of a message; ok is false if it has no such form or is too large.
func cutFrame(data []byte) (head, value, body []byte, ok bool) {
	head, rest, ok1 := bytes.Cut(data, []byte("\n"))
	value, body, ok2 := bytes.Cut(rest, []byte("\n"))
	return head, value, body, ok1 && ok2 && len(head) <= 2*maxText && len(value) <= maxMessage && len(body) <= MaxChunk
}

func decodeValue(data []byte, m message) error {
	if err := canonical.Decode(data, m); err != nil {
		return err
	}
	return m.check()
}

func (c *call) check() error {
	return within(isText(c.ID, 1), c.Schema == schema)
}

func (r *result) check() error {
	return within(isText(r.Error, 0), r.Schema == schema, r.Status == statusOK || r.Status == statusRefused || r.Status == statusAgain)
}

// taskMessage is a message of the work queue.
type taskMessage struct {
	RunID  string `json:"run_id"`
	Schema string `json:"schema"`
	Task   int    `json:"task"`
}

func (m *taskMessage) check() error {
	return within(isText(m.RunID, 1), m.Schema == schema, m.Task >= 0)
}

// Replies that are no type of the interface.
type (
	document struct {
		Bytes  int64  `json:"bytes"`
		Digest string `json:"digest"`
	}
	joinReply struct {
		BaseURL   string     `json:"base_url"`
		Documents []document `json:"documents"` // manifest, envelope, settings
		Joined    Joined     `json:"joined"`
		RunID     string     `json:"run_id"`
		Tasks     int        `json:"tasks"`
	}
	documentRequest struct {
		Document int    `json:"document"`
		Key      string `json:"key"`
		Offset   int64  `json:"offset"`
	}
	appendReply struct {
		Size int64 `json:"size"`
	}
	permitReply struct {
		Microseconds int64 `json:"microseconds"`
	}
	reserveReply struct {
		Grant Grant `json:"grant"`
	}
	progressReply struct {
		Order Order `json:"order"`
	}
	empty struct{}
)

func (r *joinReply) check() error {
	for _, d := range r.Documents {
		if d.Bytes < 0 || d.Bytes > MaxDocument || !canonical.IsDigest(d.Digest) {
			return errBounds
		}
	}
	return within(r.Joined.check() == nil, isText(r.BaseURL, 0), isText(r.RunID, 1), r.Tasks > 0, len(r.Documents) == 3)
}

func (r *documentRequest) check() error {
	return within(r.Document >= 0, r.Document < 3, r.Offset >= 0, isText(r.Key, 1))
}

func (r *appendReply) check() error { return within(r.Size >= 0) }

func (r *permitReply) check() error {
	return within(r.Microseconds >= 0, r.Microseconds <= time.Hour.Microseconds())
}

func (r *reserveReply) check() error {
	return within(r.Grant == Granted || r.Grant == Wait || r.Grant == Spent)
}

func (r *progressReply) check() error {
	return within(r.Order == Work || r.Order == Drain || r.Order == Done)
}

func (*empty) check() error { return nil }

// names are the names that one queue has on a server of NATS, from one that its users choose.
type names struct{ prefix string }

// DefaultName is the name of a queue that has none.
const DefaultName = "gaia"

const consumer = "workers"

// local is the sender on a server without NKeys.
const local = "local"

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func newNames(name string) (names, error) {
	if name == "" {
		name = DefaultName
	}
	if !namePattern.MatchString(name) {
		return names{}, fmt.Errorf("%q is no name of a queue\nhint: give letters, digits, _ and -, at most 64", name)
	}
	return names{name}, nil
}

func (n names) stream() string           { return n.prefix + "-tasks" }
func (n names) bucket() string           { return n.prefix + "-claims" }
func (n names) task(t int) string        { return n.prefix + ".task." + strconv.Itoa(t) }
func (n names) tasks() string            { return n.prefix + ".task.*" }
func (n names) rpc(op, by string) string { return n.prefix + ".rpc." + op + "." + by }
func inbox(by string) string             { return "_INBOX." + by }

// Permissions returns the subjects of NATS that a worker may publish and subscribe to, by its public NKey. They let it
// take tasks, make claims, and ask in its own name; not make, change, purge or delete what others made, nor read what
// others get. [Start] sets them on its own server; on another one, its operator does.
func Permissions(name, nkey string) (publish, subscribe []string, err error) {
	n, err := newNames(name)
	if err != nil {
		return nil, nil, err
	}
	return []string{
		n.rpc("*", nkey),
		"$JS.API.CONSUMER.INFO." + n.stream() + "." + consumer,
		"$JS.API.CONSUMER.MSG.NEXT." + n.stream() + "." + consumer,
		"$JS.ACK." + n.stream() + "." + consumer + ".>",
		"$JS.API.STREAM.INFO.KV_" + n.bucket(),
		"$JS.API.DIRECT.GET.KV_" + n.bucket() + ".>",
		"$KV." + n.bucket() + ".*",
	}, []string{inbox(nkey) + ".>"}, nil
}

// NewKey makes an NKey for a machine: its seed, which stays there, and its public half, which the server is given.
func NewKey() (seed []byte, public string, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, "", err
	}
	if public, err = pair.PublicKey(); err == nil {
		seed, err = pair.Seed()
	}
	return seed, public, err
}

// isLoopback reports whether a host is this machine, by its name alone: no resolver is asked.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// access returns how to connect to a URL of NATS, and the sender: the public NKey. Off loopback there is no connection
// without TLS and an NKey.
func access(address string, seed, ca []byte) (options []nats.Option, sender string, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "nats" && u.Scheme != "tls" {
		return nil, "", fmt.Errorf("%q is no address of NATS\nhint: give nats://HOST:PORT or tls://HOST:PORT, as gaia serve prints it", address)
	}
	near := isLoopback(u.Hostname())
	sender = local
	if seed != nil {
		pair, err := nkeys.FromSeed(bytes.TrimSpace(seed))
		if err != nil {
			return nil, "", fmt.Errorf("the NKey seed of this machine: %w", err)
		}
		if sender, err = pair.PublicKey(); err != nil || !nkeys.IsValidPublicUserKey(sender) {
			return nil, "", errors.New("the NKey seed of this machine is not one of a user, which begins with SU")
		}
		options = append(options, nats.Nkey(sender, pair.Sign))
	} else if !near {
		return nil, "", fmt.Errorf("%s is not on this machine, so its users need an NKey, and there is none\nhint: gaia worker --new-key FILE makes one; give its public half to the server", u.Host)
	}
	if !near || u.Scheme == "tls" || ca != nil {
		config := &tls.Config{MinVersion: tls.VersionTLS13}
		if ca != nil {
			if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(ca) {
				return nil, "", errors.New("the certificates of the server's authority are not PEM")
			}
		}
		options = append(options, nats.Secure(config))
	}
	return append(options, nats.CustomInboxPrefix(inbox(sender)), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(200*time.Millisecond), nats.ReconnectJitter(300*time.Millisecond, 300*time.Millisecond),
		nats.PingInterval(10*time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(5*time.Second), nats.Name("gaia")), sender, nil
}
