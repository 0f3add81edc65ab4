// Package transcript reads a run's journal for people: the steps of any attempt in
// chunks, any line of the journal, and what was spent over time. A journal may be
// written while it is read, damaged, or large.
//
// It is pure. Its texts are what models, pages and people wrote: who shows them escapes
// them. What was read before a fault stays readable, and the state names the fault.
package transcript

// Kinds of items.
const (
	KindTask     = "task"     // the attempt began: the question, its files
	KindPrompt   = "prompt"   // a request was compiled
	KindReply    = "reply"    // a model answered, or failed
	KindCall     = "call"     // a tool call was proposed
	KindDecision = "decision" // rules, approval, refusal, violation, rollback
	KindResult   = "result"   // what a tool returned
	KindExchange = "exchange" // of the recorded network of an own agent
	KindAnswer   = "answer"   // the answer was committed
	KindVerdict  = "verdict"  // scorer and judge
	KindEnd      = "end"      // the attempt or task ended
	KindOther    = "other"    // every other event
)

// Item is an event of an attempt as a page shows it. All strings are plain text from
// outside: a page escapes them and shows control characters.
type Item struct {
	Line     int64 // in the journal, from 1; the id of the item in a page is "e" and this
	Time     string
	Turn     int // 0: of no turn
	Kind     string
	Title    string      // one line: what happened
	Facts    [][2]string // names and values: latency, tokens, digests, probes, rules
	Text     string      // what was said, asked or returned, as far as recorded; a diff
	Diff     bool        // Text is a unified diff
	Cut      string      // how much Text leaves out, "" if nothing
	Bad      bool        // an error, refusal, violation or hit of a probe
	Call     string      // id of the call that a call, decision or result is of
	Tool     string      // of that call
	Pictures []Picture
	BodyOf   string // digest of the whole text, if the run keeps it
}

// Picture is an image of the workspace, or one that a tool returned.
type Picture struct {
	Name   string
	SHA256 string
	Type   string // "image/png", "image/jpeg", "image/gif" or "image/webp"
	Kept   bool   // its bytes can be read from the run
}

// Filter chooses items; the zero value chooses all. Bounds on Text are the reader's.
type Filter struct {
	Kind string
	Tool string
	Bad  bool
	Text string // that title, facts or text contain, in any case
}

// Chunk is a part of an attempt.
type Chunk struct {
	Items []Item
	From  int // place of the first item among the attempt's events, from 0
	Next  int // where the next chunk begins; -1: the attempt has no more events so far
	Prev  int // where the one before begins; -1: this is the first
	Total int // events of the attempt so far
	Open  bool
}

// ChunkSize is how many events a chunk has at most.
const ChunkSize = 200
