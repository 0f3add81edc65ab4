package audit

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxUsageExport bounds a usage export, in bytes.
const MaxUsageExport = 64 << 20

// UsageExport is what a provider says of the requests that it was paid for.
type UsageExport struct {
	Requests []ExportedRequest // each once, in the order of the export
	SHA256   string            // of the export
}

// ExportedRequest is one request of an export, or the sum of several where the
// provider tells no more. IDs are all that the export has for it; Model is ""
// where it does not say.
type ExportedRequest struct {
	IDs     []string
	Model   string
	In, Out int64 // tokens
}

// ParseUsageExport reads a provider's export: a JSON list of objects, an object
// with such a list in it, JSON lines, or CSV with a header. An entry needs its
// input and output tokens, as whole numbers under one of the names that providers
// have for them, and may have ids and a model; what else it has is not read. Of a
// JSON entry, tokens may stand in a member "usage". An entry that stands there
// again is counted once; two that differ under the same ids are refused.
func ParseUsageExport(data []byte) (*UsageExport, error) {
	if len(data) > MaxUsageExport {
		return nil, fmt.Errorf("the usage export is larger than %d bytes", MaxUsageExport)
	}
	p := exportParser{seen: map[string]ExportedRequest{}}
	text := bytes.TrimPrefix(data, []byte("\ufeff"))
	p.text = text
	read := p.csv
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && (start[0] == '[' || start[0] == '{') {
		read = p.json
	}
	if !utf8.Valid(text) {
		return nil, errors.New("the usage export is not UTF-8 text")
	}
	if err := read(); err != nil {
		return nil, fmt.Errorf("reading the usage export: %w", err)
	}
	if len(p.requests) == 0 {
		return nil, errors.New("the usage export has no entry")
	}
	return &UsageExport{Requests: p.requests, SHA256: sign.Digest(data)}, nil
}

// exportNames are the names that providers have for what an entry says, the
// first ones before the others where an entry has several.
type exportNames struct{ ids, in, out, model []string }

func providersNames() exportNames {
	return exportNames{
		ids:   []string{"request_id", "x_request_id", "generation_id", "response_id", "completion_id", "id"},
		in:    []string{"native_tokens_prompt", "prompt_tokens", "input_tokens", "tokens_prompt", "tokens_input", "tokens_in"},
		out:   []string{"native_tokens_completion", "completion_tokens", "output_tokens", "tokens_completion", "tokens_output", "tokens_out"},
		model: []string{"model", "model_id", "model_name", "model_permaslug"},
	}
}

// exportName is a name as providersNames has it.
func exportName(name string) string {
	return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(name)))
}

// maxExported bounds the tokens of an entry, which may be a month's.
const maxExported = 100_000_000_000

// exportParser gathers the entries of an export.
type exportParser struct {
	text     []byte
	requests []ExportedRequest
	seen     map[string]ExportedRequest // by ids
}

// add takes an entry, whose values are under the names of providersNames.
func (p *exportParser) add(values map[string]string) error {
	names := providersNames()
	tokens := func(what string, names []string) (int64, error) {
		for _, name := range names {
			value, there := values[name]
			if !there {
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 || n > maxExported {
				return 0, fmt.Errorf("%s is %q, which is no number of tokens", name, value)
			}
			return n, nil
		}
		return 0, fmt.Errorf("there are no %s tokens, such as %s", what, names[1])
	}
	var r ExportedRequest
	var err error
	if r.In, err = tokens("input", names.in); err != nil {
		return err
	}
	if r.Out, err = tokens("output", names.out); err != nil {
		return err
	}
	for _, name := range names.ids {
		if id := values[name]; id != "" && !slices.Contains(r.IDs, id) {
			r.IDs = append(r.IDs, id)
		}
	}
	for _, name := range names.model {
		r.Model = cmp.Or(r.Model, values[name])
	}
	if len(r.IDs) > 0 {
		key := fmt.Sprintf("%q", r.IDs)
		before, again := p.seen[key]
		same := before.In == r.In && before.Out == r.Out && before.Model == r.Model
		switch {
		case again && same:
			return nil
		case again:
			return fmt.Errorf("the id %q stands there before, with something else", r.IDs[0])
		}
		p.seen[key] = r
	}
	p.requests = append(p.requests, r)
	return nil
}

func (p *exportParser) csv() error {
	r := csv.NewReader(bytes.NewReader(p.text))
	r.ReuseRecord = true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	if err != nil {
		return err
	}
	columns := make([]string, len(header))
	for i, name := range header {
		if columns[i] = exportName(name); columns[i] != "" && slices.Contains(columns[:i], columns[i]) {
			return fmt.Errorf("line 1: there are two columns %q", columns[i])
		}
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		values := map[string]string{}
		for i, value := range row {
			values[columns[i]] = strings.TrimSpace(value)
		}
		if err := p.add(values); err != nil {
			line, _ := r.FieldPos(0)
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// wrong is what is wrong at a place of the export.
func (p *exportParser) wrong(at int64, err error) error {
	return fmt.Errorf("line %d: %w", 1+bytes.Count(p.text[:at], []byte("\n")), err)
}

// json reads values after one another: JSON lines, or one value.
func (p *exportParser) json() error {
	return p.values(jsontext.NewDecoder(bytes.NewReader(p.text)), 0, 0)
}

// values reads what a decoder, whose text begins at a place of the export, has
// left on its level: entries, or what holds lists of them.
func (p *exportParser) values(d *jsontext.Decoder, from int64, depth int) error {
	for {
		if depth > 0 && d.PeekKind() == ']' {
			return nil
		}
		value, err := d.ReadValue()
		if errors.Is(err, io.EOF) {
			return nil
		}
		at := from + d.InputOffset()
		if wrong := (*jsontext.SyntacticError)(nil); errors.As(err, &wrong) {
			at = from + wrong.ByteOffset
		}
		if err != nil {
			return p.wrong(at, fmt.Errorf("it is not JSON: %w", err))
		}
		if err := p.value(value.Clone(), at-int64(len(value)), depth); err != nil {
			return err
		}
	}
}

// maxExportDepth bounds how far a list of entries stands inside of others.
const maxExportDepth = 4

// value reads an entry, or what holds a list of them: the list itself, or an
// object that has no tokens and one list.
func (p *exportParser) value(value jsontext.Value, at int64, depth int) error {
	if depth > maxExportDepth {
		return p.wrong(at, errors.New("lists stand too deep inside of others"))
	}
	d := jsontext.NewDecoder(bytes.NewReader(value))
	switch value.Kind() {
	case '[':
		if _, err := d.ReadToken(); err != nil {
			return p.wrong(at, err)
		}
		return p.values(d, at, depth+1)
	case '{':
	default:
		return p.wrong(at, errors.New("there is neither an object nor a list"))
	}
	values, list, listAt, err := exportEntry(d)
	if err != nil {
		return p.wrong(at, err)
	}
	names := providersNames()
	counts := slices.ContainsFunc(slices.Concat(names.in, names.out), func(name string) bool { _, there := values[name]; return there })
	if list != nil && !counts {
		return p.value(list, at+listAt, depth+1)
	}
	if err := p.add(values); err != nil {
		return p.wrong(at, err)
	}
	return nil
}

// exportEntry returns the texts and numbers of an object, and the list in it with its
// place, if it has just one.
func exportEntry(d *jsontext.Decoder) (values map[string]string, list jsontext.Value, at int64, err error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, nil, 0, err
	}
	values = map[string]string{}
	lists := 0
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, nil, 0, err
		}
		key := exportName(name.String())
		member, err := d.ReadValue()
		switch {
		case err != nil:
		case member.Kind() == '[':
			list, at = member.Clone(), d.InputOffset()-int64(len(member))
			lists++
		case member.Kind() == '{' && key == "usage":
			err = usageMembers(values, member)
		default:
			err = keepMember(values, key, member)
		}
		if err != nil {
			return nil, nil, 0, err
		}
	}
	if lists != 1 {
		list = nil
	}
	return values, list, at, nil
}

// usageMembers takes what an entry's member "usage" says.
func usageMembers(values map[string]string, usage jsontext.Value) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(usage, &members); err != nil {
		return err
	}
	for name, member := range members {
		if key := exportName(name); key != "id" {
			if err := keepMember(values, key, member); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepMember takes a text or a number of an entry.
func keepMember(values map[string]string, key string, member jsontext.Value) error {
	text := string(member)
	switch member.Kind() {
	case '"':
		b, err := jsontext.AppendUnquote(nil, member)
		if err != nil {
			return err
		}
		text = string(b)
	case '0':
	default:
		return nil
	}
	if before, twice := values[key]; twice && before != text {
		return fmt.Errorf("%q stands there twice, with something else", key)
	}
	values[key] = text
	return nil
}
