package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/visible"
)

// Style is the style sheet of all pages, the board's included.
//
//go:embed style.css
var Style []byte

// Script is the script of all pages. Pages work without it.
//
//go:embed script.js
var Script []byte

//go:embed templates/*.html
var files embed.FS

// templates are those of all pages. They are parsed for the first page: most commands write none.
var templates = sync.OnceValue(parse)

func parse() *template.Template {
	return template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html"))
}

// CSP is the content security policy of pages that a server sends. The script makes no
// node from a string, so that no policy of Trusted Types is needed.
const CSP = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// fileCSP is the policy of a page that is a file: only the style and script inside it, and
// no request at all.
func fileCSP() string {
	hash := func(b []byte) string {
		sum := sha256.Sum256(b)
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; style-src " + hash(Style) + "; script-src " + hash(Script) + "; form-action 'none'; base-uri 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'"
}

// Write writes the page.
func (p Runs) Write(w io.Writer) error { return write(w, "runs", p) }

// Write writes the page.
func (p ServedRun) Write(w io.Writer) error { return write(w, "served", p) }

// Write writes the page.
func (p Run) Write(w io.Writer) error { return write(w, "run", p) }

// Write writes the page.
func (p Task) Write(w io.Writer) error { return write(w, "task", p) }

// Write writes the page.
func (p Compare) Write(w io.Writer) error { return write(w, "compare", p) }

// Write writes the page.
func (p Audit) Write(w io.Writer) error { return write(w, "audit", p) }

// Write writes the page.
func (p History) Write(w io.Writer) error { return write(w, "history", p) }

// Write writes the page.
func (p Journal) Write(w io.Writer) error { return write(w, "journal", p) }

// Write writes the page.
func (p Failure) Write(w io.Writer) error { return write(w, "failure", p) }

// TaskItems writes the items of a chunk with the links to its neighbours: what the script
// asks for when a reader comes to the end of a page.
func TaskItems(w io.Writer, p Task) error { return write(w, "chunk", p) }

// With returns how pages are written that further templates define. These can use the templates and functions of this
// package. All are parsed for the first page.
func With(files fs.FS, pattern string) func(w io.Writer, name string, model any) error {
	t := sync.OnceValue(func() *template.Template { return template.Must(parse().ParseFS(files, pattern)) })
	return func(w io.Writer, name string, model any) error { return execute(w, t(), name, model) }
}

// siteCSP is the policy of a page of a static site: its style sheet and pictures, and nothing else.
const siteCSP = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'"

func write(w io.Writer, name string, model any) error { return execute(w, templates(), name, model) }

// execute executes a template on a copy of the model in which every string is visible. The
// page is written as a whole or not at all.
func execute(w io.Writer, t *template.Template, name string, model any) error {
	v := reflect.New(reflect.TypeOf(model)).Elem()
	v.Set(reflect.ValueOf(model))
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, shown(v).Interface()); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// shown returns v with all its strings as visible.Text writes them, and shares nothing
// that it changed with v. HTML is of this program, and stays.
func shown(v reflect.Value) reflect.Value {
	to := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[template.HTML]() {
			return v
		}
		to.SetString(visible.Text(strings.ToValidUTF8(v.String(), "\ufffd")))
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		to.Set(reflect.New(v.Type().Elem()))
		to.Elem().Set(shown(v.Elem()))
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		to.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			to.Index(i).Set(shown(v.Index(i)))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			to.Field(i).Set(shown(v.Field(i)))
		}
	default:
		return v
	}
	return to
}
