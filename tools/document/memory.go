package document

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/gaia-harness/gaia/tools"
)

// Limits of a [Memory].
const (
	maxRemembered = 256      // documents
	maxMemory     = 16 << 20 // bytes of text of all of them
)

// Memory keeps what children made of the last documents, by the digests of the documents
// and of the requests, and why others could not be read. So the attachment that one attempt after
// another reads costs its time and memory once. The zero value is ready for use; nil
// keeps nothing.
type Memory struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]remembered
	order [][sha256.Size]byte // oldest first
	bytes int
}

type remembered struct {
	doc tools.Document
	err error // an *unreadable
}

// recall returns what is known of a document, or else reads it.
func (m *Memory) recall(q request, read func() (tools.Document, error)) (tools.Document, error) {
	if m == nil {
		return read()
	}
	sum, data := sha256.New(), q.Data
	q.Data = nil
	fmt.Fprintf(sum, "%+v\n", q)
	sum.Write(data)
	key := [sha256.Size]byte(sum.Sum(nil))
	m.mu.Lock()
	was, known := m.known[key]
	m.mu.Unlock()
	if known {
		return was.doc, was.err
	}
	doc, err := read()
	doc.Notes = doc.Notes[:len(doc.Notes):len(doc.Notes)] // those who add to them add to a copy
	if err != nil && !errors.As(err, new(*tools.Unreadable)) {
		return doc, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.known[key]; known || len(doc.Text) > maxMemory/4 {
		return doc, err
	}
	if m.known == nil {
		m.known = map[[sha256.Size]byte]remembered{}
	}
	m.known[key], m.order, m.bytes = remembered{doc, err}, append(m.order, key), m.bytes+len(doc.Text)
	for len(m.order) > maxRemembered || m.bytes > maxMemory { // the oldest are forgotten
		m.bytes -= len(m.known[m.order[0]].doc.Text)
		delete(m.known, m.order[0])
		m.order = m.order[1:]
	}
	return doc, err
}
