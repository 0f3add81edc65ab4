package llm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Transcription is a recording to be transcribed. Endpoints infer its format from the extension of
// FileName.
type Transcription struct {
	Model    string
	FileName string
	Audio    []byte
}

// Transcript is what was heard; Text is "" where that was nothing. Milliseconds are those that the
// endpoint bills, else those it heard; 0 = it does not say. Usage is reported by models that bill
// tokens. CostMicroUSD is the cost the endpoint reported, else that of the price table for the
// requested model, by tokens or by duration; nil = unknown.
type Transcript struct {
	Text          string
	RequestID     string
	ResponseModel string
	Usage         Usage
	Milliseconds  int64
	CostMicroUSD  *int64
}

// Transcribe has a recording written down. It sends, waits, tries again and fails as Chat does; the
// Response of each Try holds the transcript as its content. The same Transcription gives the same
// bytes of the request each time.
func (c *Client) Transcribe(ctx context.Context, t Transcription, o Observer) (Transcript, error) {
	if c.broken != nil {
		return Transcript{}, c.broken
	}
	body, contentType, err := t.form()
	if err != nil {
		return Transcript{}, c.shown(&Error{Code: "invalid_request", Stop: true, Message: err.Error()})
	}
	var heard Transcript
	request := prepared{model: t.Model, body: body, path: "/audio/transcriptions", contentType: contentType}
	_, err = c.call(ctx, request, func(x *exchange) (*Response, *Error) {
		var failed *Error
		heard, failed = c.heard(t.Model, x)
		response := &Response{Message: Message{Role: "assistant", Content: heard.Text}, RequestID: heard.RequestID,
			ResponseModel: heard.ResponseModel, Usage: heard.Usage, CostMicroUSD: heard.CostMicroUSD}
		if failed != nil && heard.CostMicroUSD == nil && !heard.Usage.Reported {
			return nil, failed
		}
		return response, failed // beside an error: it was billed all the same
	}, o)
	if err != nil {
		return Transcript{}, err
	}
	return heard, nil
}

// form writes the request as multipart/form-data. Its boundary is a digest of what it separates, not
// random: equal requests are equal in every byte, and what is separated cannot hold its own digest.
func (t Transcription) form() (body []byte, contentType string, err error) {
	// Whisper models say how long a recording is, which they are billed by, in the verbose form
	// only; the models after them do not have that form.
	format := "json"
	if strings.Contains(strings.ToLower(t.Model), "whisper") {
		format = "verbose_json"
	}
	// The last part of the file's name, with nothing in it that has a meaning in a header. Of a long one the end is kept:
	// the extension counts.
	name := strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || strings.ContainsRune("\"\\;%", r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(path.Base(t.FileName), "_"))
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[len(name)-maxName:], "")
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q ", t.Model, format, name)
	sum.Write(t.Audio)

	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	err = errors.Join(w.SetBoundary(hex.EncodeToString(sum.Sum(nil))), w.WriteField("model", t.Model), w.WriteField("response_format", format))
	part, perr := w.CreateFormFile("file", name)
	if err = errors.Join(err, perr); err == nil {
		_, err = part.Write(t.Audio)
	}
	err = errors.Join(err, w.Close())
	return b.Bytes(), w.FormDataContentType(), err
}

// heard reads an answer: {"text":…} and, as the endpoint likes, "duration" in seconds and
// "usage":{"type":"tokens","input_tokens":…,"output_tokens":…} or {"type":"duration","seconds":…}.
func (c *Client) heard(model string, x *exchange) (Transcript, *Error) {
	top := gjson.ParseBytes(x.answer)
	text := top.Get("text")
	t := Transcript{
		Text:          strings.ToValidUTF8(text.Str, "\uFFFD"),
		RequestID:     c.tidy(x.reply.id, maxName),
		ResponseModel: c.tidy(x.reply.model, maxName),
		Milliseconds:  milliseconds(top.Get("usage.seconds")),
		CostMicroUSD:  x.reply.cost,
	}
	// Token counts that cannot be true are not reported.
	in, okIn := count(top.Get("usage.input_tokens"))
	out, okOut := count(top.Get("usage.output_tokens"))
	if okIn && okOut {
		t.Usage = Usage{Reported: true, In: in, Out: out}
	}
	t.Milliseconds = cmp.Or(t.Milliseconds, milliseconds(top.Get("duration")))
	t.CostMicroUSD = cmp.Or(t.CostMicroUSD, c.config.Prices.Cost(model, t.Usage), c.config.Prices.CostOfAudio(model, t.Milliseconds))
	if text.Type != gjson.String {
		t.Text = ""
		return t, &Error{Status: http.StatusOK, Code: "invalid_response", Retryable: true, RequestID: x.reply.id,
			Message: "the answer does not have the form of a transcript: it has no text"}
	}
	return t, nil
}

// milliseconds reads a number of seconds, which some servers give as text, and rounds it up. 0 = there
// is none, or none that can be true.
func milliseconds(v gjson.Result) int64 {
	seconds := v.Num
	if v.Type == gjson.String {
		n, err := strconv.ParseFloat(v.Str, 64)
		if err != nil {
			return 0
		}
		seconds = n
	}
	if !(seconds > 0 && seconds <= maxMilliseconds/1000) {
		return 0
	}
	return int64(math.Ceil(seconds * 1000))
}
