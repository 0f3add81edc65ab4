package audit

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

var modelIdentity = Check{
	ID: "AUD-14", Name: "model-identity", Severity: High,
	Title: "only models that the plan names answered",
	Why: "an endpoint can answer with another model than the one that was asked for, behind a gateway or once a quota is used up: " +
		"the score is then not of the model that it is published for",
	Fix: "ask an endpoint that serves the planned model; where it only calls it otherwise, plan with --served-as NAME, which everybody can read in the plan; " +
		"let another model judge than the one that answers",
	Skips:      "the replies of the agent's or of the judge's model, or some of them, name no model",
	References: []string{"https://arxiv.org/abs/2504.04715", "https://arxiv.org/abs/2404.13076"},
	Rules: []Rule{
		{"model-undeclared", High, 3, "replies of a model that the plan neither names nor declares as another name of it", ""},
		{"judge-is-agent", ToReview, 2, "verdicts of a judge that is the model whose answers it judges", "another model as the judge"},
		{"other-model-asked", ToReview, 1, "exchanges of an own agent over the recorded network with addresses at which models are asked: what a model there was asked, and said, is recorded as an exchange alone", "the models of the plan, asked at the address that the agent is given"},
		{"local-origin", ToReview, 1, "a model that its maker alone serves, or a search engine beside such a model, that is asked at an address of this computer or of a private network", "an address of its provider"},
	},
	run: func(e *evidence, n *notes) {
		// Each model that the plan does not declare is reported once, at its first reply.
		type served struct{ who, planned, model string }
		var found []served
		first, replies := map[served]place{}, map[served]int{}
		names := newNaming(e.Manifest.Model)
		network, byJudge := n.aside(), int64(-1)
		type count struct{ replies, unnamed int }
		counts := map[string]*count{theAgent: {}, theJudge: {}} // endpoints that transcribe or describe for tools commonly name no model
		e.uses(func(u use) {
			is := names.of(u)
			if c := counts[u.who]; c != nil && u.answered {
				if c.replies++; !is.named {
					c.unnamed++
				}
			}
			if !is.undeclared {
				return
			}
			s := served{u.who, u.planned, u.model}
			if replies[s]++; replies[s] == 1 {
				found, first[s] = append(found, s), u.at
			}
		}, func(t *taskEvidence, a *attemptEvidence) {
			byJudge = a.earlierByJudge(byJudge)
			asked, first := 0, int64(0)
			for _, c := range a.Network {
				if c.AsksModel && c.Result != nil {
					if asked++; asked == 1 {
						first = c.Proposed
					}
				}
			}
			if asked > 0 {
				network.find("other-model-asked", t.at(a, first), fmt.Sprintf("%d exchanges with an address at which models are asked", asked))
			}
		})
		for _, s := range found {
			got := fmt.Sprintf("%q answered %s, in %d replies", s.model, s.who, replies[s])
			if replies[s] == 1 {
				got = fmt.Sprintf("%q answered %s, in one reply", s.model, s.who)
			}
			n.find("model-undeclared", first[s], got, fmt.Sprintf("the planned %q", s.planned))
		}
		for _, who := range []string{theAgent, theJudge} {
			switch c := counts[who]; {
			case c.unnamed > 0 && c.unnamed == c.replies:
				n.gap("the endpoint of %s names no model in its replies", who)
			case c.unnamed > 0:
				n.gap("%d of %d replies to %s name no model", c.unnamed, c.replies, who)
			}
		}
		n.join(network)
		// What is at an address of this computer can answer by itself; gateways of its user do so, too.
		type asked struct{ what, model, origin string }
		models := []asked{{"the agent's model", e.Manifest.Model.Name, e.Manifest.Model.Origin}}
		if j := e.Manifest.Judge; j != nil {
			models = append(models, asked{"the judge", j.Model, j.Origin})
		}
		if v := e.Manifest.Vision; v != nil {
			models = append(models, asked{"the model of describe_image", v.Model, v.Origin})
		}
		sold := func(a asked) bool { return commercial().MatchString(nameOf(a.model).base) }
		any := slices.ContainsFunc(models, sold)
		for _, a := range models {
			n.findIf(sold(a) && local(a.origin), "local-origin", place{given: true}, fmt.Sprintf("%s, %q, is asked at %s", a.what, a.model, a.origin))
		}
		if s := e.Manifest.Search; s != nil && any && local(s.Origin) {
			n.find("local-origin", place{given: true}, "the search engine is asked at "+s.Origin, "a public search engine")
		}
		if j := e.Manifest.Judge; j != nil && byJudge >= 0 && Declares(e.Manifest.Model, j.Model, e.Manifest.Model.Name) {
			n.find("judge-is-agent", place{seq: byJudge, given: true}, fmt.Sprintf("the model %q judged answers of %q", j.Model, e.Manifest.Model.Name))
		}
	},
}

// Declares reports whether a model's name in a reply is one that a plan declares for one of its models: the
// planned name or one that it is served as. A reply may name the release that answered, or the quantized file,
// where the plan names none.
func Declares(plan ModelPlan, model, planned string) bool {
	got := nameOf(model)
	return got.base != "" && slices.ContainsFunc(append(slices.Clone(plan.ServedAs), planned), func(own string) bool {
		want := nameOf(own)
		return sameModel(got, want) || sameModel(got.ownerJoined(want.base), want) || sameModel(got, want.ownerJoined(got.base))
	})
}

// sameModel reports whether got is a way to write the model want.
func sameModel(got, want modelName) bool {
	return (got.base == want.base || got.tagged && got.base == instructed(want.base) || want.tagged && instructed(got.base) == want.base) &&
		(want.release == "" || got.release == want.release) && (want.form == "" || got.form == "" || got.form == want.form) &&
		(endsIn(got.owners, want.owners) || endsIn(want.owners, got.owners))
}

// instructed returns a base without the word for a model that follows instructions, which a tag such as model:7b
// leaves out.
func instructed(base string) string {
	for _, kind := range []string{"-instruct", "-chat", "-it"} {
		base = strings.TrimSuffix(base, kind)
	}
	return base
}

// modelName is the parts of a model's name, which can be written in many ways.
type modelName struct {
	owners  []string // who made it, or offers it: the last one is the nearest
	base    string   // "" where the name says nothing, as model.safetensors
	release string   // a day, a month or a number; "" for whichever is the latest
	form    string   // the quantization, as q4_k_m; "" where none is named
	file    bool     // it is the name of a file or of a folder of files
	tagged  bool     // the size stands behind a colon, as model:7b
}

// ownerJoined returns n with its owner apart, where a file is named owner_base.
func (n modelName) ownerJoined(base string) modelName {
	owner, found := strings.CutSuffix(n.base, "_"+base)
	if !n.file || !found || owner == "" || strings.ContainsAny(owner, "_.") {
		return n
	}
	n.owners, n.base = []string{owner}, base
	return n
}

// nameOf returns the parts of a model's name, as providers, gateways and programs that serve files write it. The
// size and the kind of a model stay in the base, so that no other model is accepted for it.
func nameOf(s string) modelName {
	s = strings.ToLower(strings.TrimSpace(strings.ReplaceAll(s, `\`, "/")))
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == '/' })
	n := modelName{file: modelFile().MatchString(s)}
	rooted := strings.HasPrefix(s, "/") || strings.HasPrefix(s, ".") || strings.HasPrefix(s, "~") || driveLetter().MatchString(s)
	base := ""
	for i := len(parts) - 1; i >= 0; i-- {
		if repository, found := strings.CutPrefix(parts[i], "models--"); found { // a folder of the hub's cache
			parts = append([]string{""}, strings.Split(repository, "--")...)
			i, rooted = len(parts)-1, false
		}
		base = fileParts().ReplaceAllString(modelFile().ReplaceAllString(parts[i], ""), "")
		if form := quantized().FindStringSubmatch(base); form != nil {
			base, n.form = matrix().ReplaceAllString(form[1], ""), form[2]
		}
		var repository bool
		base, repository = strings.CutSuffix(base, "-gguf")
		n.file = n.file || repository
		if parts = parts[:i]; !saysNothing().MatchString(base) {
			break
		}
		if base = ""; !n.file && !rooted {
			break
		}
	}
	if base == "" {
		return modelName{}
	}
	for owner := ownerBefore().FindStringSubmatch(base); owner != nil && !n.file; owner = ownerBefore().FindStringSubmatch(base) {
		n.owners, base = append(n.owners, owner[1]), base[len(owner[1])+1:]
	}
	if !rooted && !n.file { // the folders of a file say nothing of who made the model
		folders := slices.DeleteFunc(parts, func(part string) bool { return part == "models" || part == "" })
		n.owners = append(slices.Clone(folders), n.owners...)
	}
	base = routes().ReplaceAllString(base, "")
	base = strings.ReplaceAll(base, "@", "-")
	base = pointBetween().ReplaceAllString(base, "$1-$2")
	base = latest().ReplaceAllString(base, "")
	if m := released().FindStringSubmatch(base); m != nil {
		base, n.release = m[1], strings.ReplaceAll(m[2], "-", "")
	}
	n.tagged = strings.Contains(base, ":")
	n.base = strings.ReplaceAll(strings.Replace(base, "meta-llama-", "llama-", 1), ":", "-")
	return n
}

var (
	// modelFile is the ending of a file of weights.
	modelFile = lazily(`\.(?:gguf|ggml|safetensors|llamafile|bin|pth?|onnx|index\.json)$`)
	// fileParts is the number of a part of a file.
	fileParts = lazily(`-[0-9]{5}-of-[0-9]{5}$`)
	// quantized is a name and its quantization, as q4_k_m, iq2_xs, f16.
	quantized = lazily(`^(.*[^-._:@])[-._:@](i?q[1-8](?:_[0-9a-z]+)*|b?f16|fp16|f32|fp32|mxfp4(?:_moe)?)$`)
	// matrix is what a name says of how its quantization was made.
	matrix = lazily(`[-._](?:i1|imat|imatrix|ud)$`)
	// saysNothing is the name of a file or folder that names no model.
	saysNothing = lazily(`^(?:|\.{1,2}|~|[a-z]:|ggml-model|model|models|weights|checkpoint|checkpoints|consolidated(?:\.[0-9]+)?|pytorch_model|gguf|snapshots|blobs|[0-9a-f]{40}|sha256-[0-9a-f]{64})$`)
	driveLetter = lazily(`^[a-z]:/`)
	// ownerBefore is an owner or a region before a name, as in us.anthropic.name.
	ownerBefore = lazily(`^([a-z][a-z-]*)\.[a-z]`)
	// routes are what gateways and clouds put after a model's name to say where they send a request, or in which
	// form they take it.
	routes = lazily(`(?::(?:exacto|extended|floor|free|latest|nitro)|-v[0-9]+:[0-9]+)$`)
	// pointBetween is the point of a version, which some write as a hyphen.
	pointBetween = lazily(`([0-9])\.([0-9])`)
	// latest is what stands for the newest release of a name.
	latest = lazily(`-(?:latest|0)$`)
	// released is a release of a model: its name and a day with the year or without, a month of a year, or a number
	// from 001 on.
	released = lazily(`^(.+)-(20[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])|20[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])|` +
		`(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])|2[3-9](?:0[1-9]|1[0-2])|(?:0[1-9]|1[0-2])-20[0-9]{2}|00[1-9])$`)
)

// endsIn reports whether a list ends in another one.
func endsIn(all, end []string) bool {
	return len(end) <= len(all) && slices.Equal(all[len(all)-len(end):], end)
}

// A naming says what the names in replies are. It remembers it of the first mostNames, since most replies have the same.
type naming struct {
	model plan.ModelPlan
	seen  map[[2]string]named // by the name in a reply and the planned one
}

const mostNames = 1024

// named is what the name in a reply is.
type named struct {
	named      bool // it names a model
	undeclared bool // another one than is planned
}

func newNaming(m plan.ModelPlan) *naming { return &naming{m, map[[2]string]named{}} }

func (n *naming) of(u use) named {
	is, known := n.seen[[2]string{u.model, u.planned}]
	if known {
		return is
	}
	is.named = nameOf(u.model).base != ""
	is.undeclared = is.named && u.planned != "" && !Declares(n.model, u.model, u.planned)
	if len(n.seen) < mostNames {
		n.seen[[2]string{u.model, u.planned}] = is
	}
	return is
}

// servedOtherwise is what an event by itself shows of a model that the plan does not declare.
func servedOtherwise(m plan.Plan, names *naming, n *notes, at place, p trajectory.Payload) {
	u := use{at: at, who: theAgent, planned: m.Model.Name}
	switch p := p.(type) {
	case trajectory.ModelCallCompleted:
		u.model, u.planned = p.ResponseModel, answersAs(m, p.RequestedModel)
	case trajectory.ToolExecuted:
		if p.Model != nil {
			u.who, u.planned, u.model = p.Name, plannedModel(m, p.Name), p.Model.ResponseModel
		}
	case trajectory.Preflight:
		usesOfPreflight(m, at, p, func(asked use) { u = asked })
	case trajectory.Judgment:
		if m.Judge != nil && p.Path != judge.PathOfficial && !p.Cached {
			u.who, u.planned, u.model = theJudge, m.Judge.Model, p.ResponseModel
		}
	}
	n.findIf(names.of(u).undeclared, "model-undeclared", at, fmt.Sprintf("%q answered %s, and the plan has %q; if that is another name of the same model, plan with --served-as", u.model, u.who, u.planned))
}

// commercial matches the bases of names of models that only their makers serve: their weights are not published.
var commercial = lazily(`^(?:chatgpt-|gpt-(?:3-5|[4-9])|o[1-9](?:-|$)|claude-|gemini-|grok-[3-9]|sonar(?:-|$)|nova-(?:lite|micro|premier|pro)|qwen[0-9-]*-?(?:max|plus|turbo)(?:-|$))`)

// local reports whether an origin is of this computer or of a private network.
func local(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Hostname() == "" {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || shared.Contains(ip)
	}
	if !strings.Contains(host, ".") { // a name of this computer, or of a container beside it
		return true
	}
	return slices.ContainsFunc([]string{".home.arpa", ".internal", ".intranet", ".lan", ".local", ".localdomain", ".localhost"}, func(end string) bool { return strings.HasSuffix(host, end) })
}

// shared are addresses behind the translation of a carrier, which private networks also use.
var shared = netip.MustParsePrefix("100.64.0.0/10")
