package workers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/queue"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/spf13/pflag"
)

// Network says how the server and its workers reach each other, by flags.
type Network struct {
	join, listen, nats, name string
	nkey, ca, cert, key      string
	workers                  []string
}

// maxFile bounds a file of a key or a certificate, in bytes.
const maxFile = 1 << 20

// AddServerFlags adds the flags of serve.
func (n *Network) AddServerFlags(f *pflag.FlagSet) {
	f.StringVar(&n.listen, "listen", "127.0.0.1:4222", "`address` at which workers join")
	f.StringVar(&n.cert, "tls-cert", "", "certificate of the server, PEM `file`; needed off loopback")
	f.StringVar(&n.key, "tls-key", "", "key of the certificate, PEM `file`")
	f.StringArrayVar(&n.workers, "worker-key", nil, "public `NKey` of a machine that may work; needed off loopback; repeatable")
	f.StringVar(&n.nats, "nats", "", "`URL` of a NATS cluster with JetStream, in the place of --listen")
	n.addFlags(f)
}

// AddClientFlags adds the flags of worker.
func (n *Network) AddClientFlags(f *pflag.FlagSet) {
	f.StringVar(&n.join, "join", "", "`address` of the server: nats://HOST:PORT or tls://HOST:PORT")
	n.addFlags(f)
}

func (n *Network) addFlags(f *pflag.FlagSet) {
	f.StringVar(&n.nkey, "nkey", "", "NKey `file` of this machine, which 'gaia worker --new-key' writes; needed off loopback")
	f.StringVar(&n.ca, "ca", "", "PEM `file` of the authority for the server's certificate (default: those of this machine)")
	f.StringVar(&n.name, "queue", "", "`name` of the queue in a cluster that several runs share")
}

// Server returns the options of the queue of a server.
func (n Network) Server() (o queue.Options, err error) {
	o = queue.Options{Name: n.name, CertFile: n.cert, KeyFile: n.key, Workers: n.workers, URL: n.nats}
	if n.nats == "" {
		o.Listen = n.listen
	}
	o.Seed, o.CA, err = n.files()
	return o, err
}

// Client returns how a worker reaches its server.
func (n Network) Client() (o queue.ClientOptions, err error) {
	if n.join == "" {
		return o, exit.Usagef("gaia serve prints the command for a worker, such as: gaia worker --join nats://127.0.0.1:4222", "--join names no server")
	}
	o = queue.ClientOptions{URL: n.join, Name: n.name}
	o.Seed, o.CA, err = n.files()
	return o, err
}

// files reads the files that the flags name. An NKey that others can read is an error.
func (n Network) files() (seed, ca []byte, err error) {
	if n.nkey != "" {
		if info, err := os.Stat(n.nkey); err == nil && info.Mode().Perm()&0o077 != 0 {
			return nil, nil, &sign.PermissionError{What: "NKey", Path: n.nkey, Mode: info.Mode().Perm()}
		}
		if seed, err = regular.ReadUpTo(n.nkey, maxFile); err != nil {
			return nil, nil, exit.Usagef("gaia worker --new-key "+view.Quote(n.nkey), "reading the NKey %q: %v", n.nkey, err)
		}
	}
	if n.ca != "" {
		if ca, err = regular.ReadUpTo(n.ca, maxFile); err != nil {
			return nil, nil, exit.Usagef("give a file with certificates, PEM", "reading %q: %v", n.ca, err)
		}
	}
	return seed, ca, nil
}

// hinted returns an error of package queue with the hint that its text ends in.
func hinted(err error) error {
	if text, hint, found := strings.Cut(err.Error(), "\nhint: "); found {
		return exit.New(exit.Usage, errors.New(text), hint)
	}
	return err
}

// JoinLine returns the command by which a worker joins the server at a URL.
func (n Network) JoinLine(url string) string {
	line := "gaia worker --join " + view.Quote(url)
	if n.name != "" {
		line += " --queue " + view.Quote(n.name)
	}
	if len(n.workers) > 0 || n.nats != "" {
		line += " --nkey FILE"
	}
	return line
}

// NewKey writes a new NKey to a file that must not exist, readable for its owner alone, and prints its public half.
func NewKey(path string, out io.Writer) error {
	seed, public, err := queue.NewKey()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return exit.Usagef("give a file that does not exist", "writing the NKey: %v", err)
	}
	_, err = fmt.Fprintf(f, "%s\n", seed)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, public)
	return err
}
