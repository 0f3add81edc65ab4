package trial

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/gaia-harness/gaia/internal/doctor"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
)

// Exchange counts the exchanges over the recorded network that have these things in common.
type Exchange struct {
	Bytes  int64  `json:"bytes"` // of the bodies of replies
	Count  int    `json:"count"`
	Error  string `json:"error,omitzero"`
	Method string `json:"method"`
	Status int    `json:"status"` // of HTTP; 0: no reply came
	URL    string `json:"url"`
}

// tls counts the exchanges whose client took the run's certificate for the server's, and the connections whose client did not.
func (r Report) tls() (taken, refused int) {
	for _, x := range r.Exchanges {
		if strings.HasPrefix(x.URL, "https:") {
			taken += x.Count
		}
	}
	for _, f := range r.Refused {
		if f.Code == "tls_refused" {
			refused += f.Count
		}
	}
	return taken, refused
}

// bypassed says what went past the proxy, and so nowhere; "" if nothing.
func (r Report) bypassed() string {
	c := r.End.Confined
	if c == nil {
		return ""
	}
	var parts []string
	if c.NoRoute > 0 {
		parts = append(parts, view.Count(int(c.NoRoute), "packet")+" to addresses without a route")
	}
	if c.Unheard > 0 {
		parts = append(parts, view.Count(int(c.Unheard), "datagram")+" to local ports where nothing listens, as for names")
	}
	return strings.Join(parts, ", ")
}

// networkRows describes what went over the network.
func (r Report) networkRows() (rows []string) {
	for _, x := range r.Exchanges {
		row := fmt.Sprintf("%s %s: status %d, %s, %s", x.Method, clip(x.URL, 100), x.Status, view.Count(x.Count, "exchange"), view.Bytes(x.Bytes))
		if x.Error != "" {
			row += " (" + clip(x.Error, 60) + ")"
		}
		rows = append(rows, row)
	}
	if len(rows) > shown {
		rows = append(rows[:shown-1:shown-1], fmt.Sprintf("and %d more addresses", len(rows)-shown+1))
	}
	if taken, refused := r.tls(); taken+refused > 0 {
		rows = append(rows, fmt.Sprintf("TLS: %s, %s by the client", view.Count(taken, "exchange"), view.Count(refused, "refusal")))
	}
	if past := r.bypassed(); past != "" {
		rows = append(rows, "reached nothing: "+past)
	}
	return rows
}

// folderRow describes what was looked through of the folders.
func (r Report) folderRow() string {
	p := r.Probed
	if p == nil {
		return ""
	}
	found, _ := runview.Found(p)
	row := fmt.Sprintf("%s, %s looked through: %s", view.Count(p.Files, "file"), view.Bytes(p.Bytes), cmp.Or(found, "nothing of the tasks found"))
	if p.Unread > 0 {
		row += fmt.Sprintf("; %s could not be read", view.Count(p.Unread, "file"))
	}
	if p.Stopped != "" {
		row += "; stopped at the limit of " + p.Stopped + ", which is a gap of a run"
	}
	return row
}

// share says how much of what models were sent came from a witnessed source.
func (r Report) share() string {
	if r.PromptBytes == 0 || r.WitnessedBytes == nil {
		return ""
	}
	return fmt.Sprintf("%s, of which %.1f %% came from the question, replies, results, exchanges or the workspace",
		view.Bytes(r.PromptBytes), 100*float64(*r.WitnessedBytes)/float64(r.PromptBytes))
}

// observedNetwork reports what the agent did with its network, and what was found in its folders.
func (r Report) observedNetwork() (found []doctor.Finding) {
	add := func(name, state, detail, use, remedy string) {
		found = append(found, doctor.Finding{Name: name, State: state, Detail: detail, Use: use, Remedy: remedy})
	}
	const proxied = "let its clients use HTTPS_PROXY and HTTP_PROXY: aiohttp does with trust_env=True, Node's fetch from version 22.21 on"
	if r.Network == plan.NetworkRecord {
		hosts := map[string]int{}
		var order []string
		for _, x := range r.Exchanges {
			if u, err := url.Parse(x.URL); err == nil {
				if hosts[u.Host] == 0 {
					order = append(order, u.Host)
				}
				hosts[u.Host] += x.Count
			}
		}
		for i, host := range order {
			order[i] = fmt.Sprintf("%s: %s", host, view.Count(hosts[host], "exchange"))
		}
		if len(order) > 0 {
			add("network", doctor.OK, strings.Join(view.First(shown, order), ", "), "is recorded", "")
		} else {
			add("network", doctor.Missing, "the agent asked for nothing", "is recorded", "if it is to read the web: "+proxied)
		}
		switch taken, refused := r.tls(); {
		case refused > 0:
			add("certificates", doctor.Missing, fmt.Sprintf("a client refused that of the run %s; %s worked", view.Count(refused, "time"), view.Count(taken, "exchange")),
				"are trusted by clients", hints["tls_refused"])
		case taken > 0:
			add("certificates", doctor.OK, view.Count(taken, "exchange")+" over TLS", "are trusted by clients", "")
		}
		if past := r.bypassed(); past != "" {
			add("bypass", doctor.Missing, past, "reached nothing", proxied+"; switch off lookups of names, updates and telemetry")
		}
	}
	if p := r.Probed; p != nil {
		state, remedy := doctor.OK, ""
		if _, warning := runview.Found(p); warning != "" {
			state, remedy = doctor.Missing, warning
		} else if p.Stopped != "" {
			state, remedy = doctor.Missing, "leave out of the folders what the agent does not need"
		}
		if p.Answers > 0 {
			state = doctor.Failed
		}
		add("contents", state, r.folderRow(), "are looked through before a run", remedy)
	}
	return found
}
