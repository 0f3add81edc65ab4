package audit

import "strings"

// toolDescriptions looks for a task's answer in what every attempt is told of
// tools that are not this version's own, which are known to tell none.
func toolDescriptions(e *Evidence, n *Notes) {
	var descriptions, schemas strings.Builder
	for _, t := range e.Manifest.Tools {
		if ours(t) {
			continue
		}
		if t.Server == "" || builtin(t.Name) {
			n.gap("the tool %q is neither one of this version nor a server's: what it says of itself, or takes, is not known", t.Name)
		}
		descriptions.WriteString(t.Name + "\n" + t.Description + "\n")
		schemas.WriteString(t.Schema + "\n")
	}
	if descriptions.Len() == 0 {
		return
	}
	says, takes := descriptions.String(), schemas.String()
	if bounded(&says, &takes) {
		n.gap("the tools say more of themselves than is looked through for each task")
	}
	if e.unplanned().records(says + takes) {
		n.find("other-record", place{unasked: true}, "a server's tool holds a record of a task that the run does not ask", "what the tool does and takes")
	}
	for _, t := range e.Tasks {
		if len(t.Attempts) == 0 {
			continue
		}
		prober := e.prober(t)
		if p := prober.Probe(says, "", nil); p.OwnUUID || p.GoldHits > 0 || p.QCov >= wholeQuestion {
			n.find("tool-description-answer", place{task: t, unasked: true}, "the description of a tool holds the task or its answer", "what the tool does")
		}
		switch s := prober.Probe(takes, "", nil); {
		case s.OwnUUID || s.GoldLabelNear || s.QCov >= wholeQuestion:
			n.find("tool-schema-answer", place{task: t, unasked: true}, "the parameters of a server's tool hold the task or its answer", "what the tool takes")
		case s.GoldHits > 0: // the name of a parameter can be any word
			n.find("tool-schema-word", place{task: t, unasked: true}, "the parameters of a server's tool hold a word of the answer", "what the tool takes")
		}
	}
}

// recordsNamed looks for the run's own records in what every attempt is told.
func recordsNamed(e *Evidence, n *Notes) {
	for _, p := range e.Manifest.Prompts {
		if namesRecords(e.Manifest.Policy, p.Text) {
			n.find("records-named", place{sha256: p.SHA256, unasked: true}, "the template "+p.ID+" names the run's own records or verdicts", "a template that tells of the task")
		}
	}
	for _, t := range e.Manifest.Tools {
		if !builtin(t.Name) && namesRecords(e.Manifest.Policy, t.Description+"\n"+t.Schema) {
			n.find("records-named", place{unasked: true}, "the tool "+t.Name+" names the run's own records or verdicts", "what the tool does and takes")
		}
	}
}
