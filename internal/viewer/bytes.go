package viewer

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // dimensions of pictures
	_ "image/jpeg"
	_ "image/png"
	"io/fs"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/overview"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/plot"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
	_ "golang.org/x/image/webp"
)

// Bounds on what a browser gets of a run, in bytes and pixels.
const (
	maxBody   = 32 << 20
	maxPixels = 100 << 20
)

var (
	errNoDigest   = errors.New("a digest is sha256: and 64 hexadecimal digits")
	errTooLarge   = fmt.Errorf("it is larger than %d MB, which pages do not show: 'gaia show DIR --body DIGEST' writes it", maxBody>>20)
	errManyPixels = fmt.Errorf("it has more than %d million pixels, which pages do not show", maxPixels>>20)
	errNoPicture  = errors.New("it is no picture in PNG, JPEG, GIF or WebP")
	errWithheld   = errors.New("a public package does not contain it")
)

// bodyOf returns a text or picture that the run keeps.
func (s *Server) bodyOf(r *http.Request) (data []byte, media string, err error) {
	digest := r.PathValue("digest")
	name := trajectory.BodyFile(digest)
	if name == "" {
		return nil, "", errNoDigest
	}
	err = s.withRun(r, func(o *opened, _ overview.Source) error {
		if o.journal == nil {
			return errWithheld
		}
		if info, err := fs.Stat(o.files, name); err == nil && info.Size() > maxBody {
			return errTooLarge
		}
		data, media, err = o.journal.Body(digest)
		return err
	})
	return data, media, err
}

// sandbox is the policy of what others have made: it does nothing, wherever it is opened.
const sandbox = "default-src 'none'; frame-ancestors 'none'; sandbox"

// picture answers with a picture, by its content.
func (s *Server) picture(w http.ResponseWriter, r *http.Request) {
	data, media, err := s.bodyOf(r)
	if err == nil && !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, media) {
		err = errNoPicture
	}
	if err == nil {
		if size, _, decodeErr := image.DecodeConfig(bytes.NewReader(data)); decodeErr != nil {
			err = errNoPicture
		} else if int64(size.Width)*int64(size.Height) > maxPixels {
			err = errManyPixels
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Security-Policy", sandbox)
	w.Header().Set("Content-Disposition", "inline")
	s.send(w, media, data)
}

// body answers with a whole text, in which every character can be seen.
func (s *Server) body(w http.ResponseWriter, r *http.Request) {
	data, _, err := s.bodyOf(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Security-Policy", sandbox)
	s.send(w, "text/plain; charset=utf-8", []byte(visible.Text(strings.ToValidUTF8(string(data), "\ufffd"))))
}

// savePlot answers with a plot as SVG or CSV, to be saved. file is its name and the ending.
func (s *Server) savePlot(w http.ResponseWriter, r *http.Request, plots []plot.Plot, err error) {
	name, ending, _ := strings.Cut(r.PathValue("file"), ".")
	at := slices.IndexFunc(plots, func(p plot.Plot) bool { return p.Name == name })
	if err == nil && (at < 0 || ending != "svg" && ending != "csv" || ending == "svg" && plots[at].SVG == "") {
		err = errNoPage
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name + "." + ending}))
	w.Header().Set("Content-Security-Policy", sandbox)
	if ending == "csv" {
		s.send(w, "text/csv; charset=utf-8", plots[at].CSV())
	} else {
		s.send(w, "image/svg+xml", []byte(plots[at].SVG))
	}
}

func (s *Server) runPlot(w http.ResponseWriter, r *http.Request) {
	var p page.Run
	err := s.withRun(r, func(_ *opened, source overview.Source) (err error) {
		p, err = overview.Run(source, page.TaskFilter{}, 0)
		return err
	})
	s.savePlot(w, r, p.Plots, err)
}

func (s *Server) taskPlot(w http.ResponseWriter, r *http.Request) {
	attempt, err := strconv.ParseUint(r.PathValue("attempt"), 10, 30)
	if err != nil {
		s.fail(w, r, errNoPage)
		return
	}
	p, err := s.task(r, int(attempt))
	s.savePlot(w, r, p.Plots, err)
}

func (s *Server) historyPlot(w http.ResponseWriter, r *http.Request) {
	p, err := s.history()
	s.savePlot(w, r, p.Plots, err)
}
