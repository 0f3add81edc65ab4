package audit

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// theNetwork stands where the name of a tool stands of a call: the recorded network of an own agent, of which an exchange is
// a call and its result. Checks look at both as they do at those of web_fetch.
const theNetwork = "the recorded network"

// looked returns the calls of tools and the exchanges of an attempt, in the order in which they began.
func (a *attemptEvidence) looked() []*callFact {
	if len(a.Network) == 0 {
		return a.Calls
	}
	all := slices.Concat(a.Calls, a.Network)
	slices.SortStableFunc(all, func(a, b *callFact) int { return int(a.began() - b.began()) })
	return all
}

// began returns the line of a call's proposal, or of what there is of it.
func (c *callFact) began() int64 {
	if c.Proposed < 0 && c.Result != nil {
		return c.Result.Seq
	}
	return c.Proposed
}

// network takes an event of the recorded network.
func (t *taskReader) network(a *attemptEvidence, ev trajectory.Event) {
	switch p := ev.Payload.(type) {
	case trajectory.ExchangeStarted:
		c := t.exchangeOf(ev.Seq, p.URL)
		c.Decision.Decision = string(policy.Allow)
		body, shown := t.bodies.text(p.SHA256)
		if !shown {
			body, shown = t.bodies.text(p.BodySHA256)
		}
		c.Cut = p.Redactions > 0 || p.SHA256 != "" && !shown
		if own := p.Own; own != nil { // which is over the body, too
			c.TellsOwn, c.TellsIDs = own.OwnUUID, own.OtherUUIDs
			c.HoldsOwn, c.HoldsIDs = c.HoldsOwn || own.OwnUUID, max(c.HoldsIDs, own.OtherUUIDs)
		}
		if shown {
			c.args += "\n" + body
			c.TellsOwn, c.TellsIDs = c.TellsOwn || policy.NamesTask(body, t.Plan.TaskID), max(c.TellsIDs, t.prober.OtherIDs(body))
			c.AsksDigest = c.AsksDigest || t.digests.in(body)
		}
		c.echo = c.args
		c.AsksModel = isModelAddress(p.URL)
		a.SaidQuestion = a.SaidQuestion || c.Cut || t.prober.Mostly(c.args)
		if t.exchanges == nil {
			t.exchanges = map[int]exchange{}
		}
		t.exchanges[p.Number] = exchange{c, p.URL}
		a.Network = append(a.Network, c)
	case trajectory.ExchangeCompleted:
		x := t.exchanges[p.Number]
		delete(t.exchanges, p.Number)
		c, shown := x.call, exchangeAsResult(p, x.address)
		h := headOf(shown)
		c.Result = t.result(ev.Seq, shown, h, c)
		c.Result.ofExchange(p)
		if p.Opaque > 0 {
			a.Opaque++
		}
		t.oracle(a, c, shown, h)
		c.args, c.text, c.echo = "", "", ""
	case trajectory.RequestRefused:
		address, ok := addressOf(p)
		if !ok {
			return
		}
		c := t.exchangeOf(ev.Seq, address)
		c.Decision.Decision, c.Decision.RuleIDs = string(policy.Deny), p.RuleIDs
		c.args, c.text, c.echo = "", "", ""
		a.Network = append(a.Network, c)
		at := slices.IndexFunc(a.Refused, func(r refusedFact) bool { return r.Code == p.Code })
		if at < 0 {
			at = len(a.Refused)
			a.Refused = append(a.Refused, refusedFact{Code: p.Code, Seq: ev.Seq})
		}
		a.Refused[at].Count++
	}
}

// exchange is an exchange that is open.
type exchange struct {
	call    *callFact
	address string
}

// exchangeAsResult returns the reply of an exchange as the result of a tool would be recorded.
func exchangeAsResult(p trajectory.ExchangeCompleted, address string) trajectory.ToolExecuted {
	return trajectory.ToolExecuted{BodySHA256: p.BodySHA256, Bytes: p.Bytes, Head: p.Head, IsError: p.Error != "" || p.Status >= 400, Name: theNetwork, OutputSHA256: p.SHA256,
		Probes: p.Probes, Redactions: p.Redactions, URLs: []trajectory.URL{{ContentType: p.ContentType, Status: p.Status, URL: address}}}
}

// ofExchange notes what an exchange says more of than a result: its probes were made with the whole request at hand, and
// over all of the reply but for some bytes.
func (r *resultFact) ofExchange(p trajectory.ExchangeCompleted) {
	r.Unheard = r.Unheard && p.Probes == nil
	r.Unprobed = p.SHA256 != "" && (r.Unprobed || p.Unprobed > 0)
}

// refusedFact counts the exchanges of an attempt that were refused for one reason, of which Seq is the first.
type refusedFact struct {
	Code  string
	Seq   int64
	Count int
}

// exchangeOf returns an exchange by its address, as it began.
func (t *taskReader) exchangeOf(seq int64, address string) *callFact {
	c := &callFact{Name: theNetwork, Proposed: seq, Decided: seq, args: address, text: address, asks: policy.Read(policy.CallOf("web_fetch", map[string]string{"url": address}))}
	t.looksFor(c)
	c.asks = policy.ReadCall{}
	c.Hits = policy.DecideURL(t.plan.anything, t.Plan.TaskID, address).RuleIDs // as the Gate decides on it
	if u, err := url.Parse(address); err == nil {
		c.Keys = policy.AnswerKeys(policy.Read(policy.Call{Paths: []string{u.Path}}))
	}
	c.Grades = aboutAnswers().MatchString(strings.ToLower(address))
	return c
}

// addressOf returns the whole address of a refused request of the recorded network. Those to models have a path alone.
func addressOf(p trajectory.RequestRefused) (string, bool) {
	_, address, _ := strings.Cut(p.Path, " ")
	if address == "" || strings.HasPrefix(address, "/") {
		return "", false
	}
	if !strings.Contains(address, "://") {
		address = "https://" + address // of a tunnel
	}
	return address, true
}

// isModelAddress reports whether an address is one at which models are asked.
func isModelAddress(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	p := strings.TrimRight(strings.ToLower(u.Path), "/")
	return slices.ContainsFunc([]string{"/chat/completions", "/responses", "/messages", ":generatecontent", ":streamgeneratecontent", "/api/chat", "/api/generate"}, func(end string) bool {
		return strings.HasSuffix(p, end)
	})
}

// digestDigits is how many digits of a digest an address has at least by which others can find a task. No address has them
// by chance.
const digestDigits = 12

// taskDigests are the beginnings of digests of a task's question and id.
type taskDigests struct{ folded, exact []string }

// newTaskDigests returns those of what an agent can make of both without thinking.
func newTaskDigests(question, id string) *taskDigests {
	trimmed := strings.TrimSpace(question)
	texts := []string{question, trimmed, trimmed + "\n", strings.ToLower(trimmed), strings.Join(strings.Fields(trimmed), " "), strings.Join(strings.Fields(strings.ToLower(trimmed)), " "),
		id, strings.ToUpper(id), strings.ReplaceAll(id, "-", ""), id + "\n"}
	slices.Sort(texts)
	d := &taskDigests{}
	for _, text := range slices.Compact(texts) {
		if strings.TrimSpace(text) == "" {
			continue
		}
		m, s1, s256 := md5.Sum([]byte(text)), sha1.Sum([]byte(text)), sha256.Sum256([]byte(text))
		for _, sum := range [][]byte{m[:], s1[:], s256[:]} {
			d.folded = append(d.folded, hex.EncodeToString(sum)[:digestDigits], strings.ToLower(base32.StdEncoding.EncodeToString(sum))[:digestDigits])
			d.exact = append(d.exact, base64.StdEncoding.EncodeToString(sum)[:digestDigits], base64.URLEncoding.EncodeToString(sum)[:digestDigits])
		}
	}
	return d
}

// in reports whether an address holds one of the digests, also where it is divided as names of hosts and identifiers are.
func (d *taskDigests) in(address string) bool {
	if plain, err := url.PathUnescape(address); err == nil {
		address = plain
	}
	low := strings.ToLower(address)
	joined := strings.NewReplacer("-", "", ".", "", "_", "", ":", "", "/", "").Replace(low)
	return slices.ContainsFunc(d.folded, func(begin string) bool { return strings.Contains(low, begin) || strings.Contains(joined, begin) }) ||
		slices.ContainsFunc(d.exact, func(begin string) bool { return strings.Contains(address, begin) })
}
