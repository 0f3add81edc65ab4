package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// parted returns the events of a body and the error that ends it.
func parted(body string, most int64) (found []string, err error) {
	in := events{r: bufio.NewReaderSize(strings.NewReader(body), 16)}
	for {
		var event []byte
		if event, err = in.next(most); len(event) > 0 {
			found = append(found, string(event))
		}
		if err != nil {
			return found, err
		}
	}
}

func TestEvents(t *testing.T) {
	body := "data: 1\n\n: a comment\r\n\r\nevent: x\ndata: a longer line than the buffer has\n\n\ndata: cut"
	want := []string{"data: 1\n\n", ": a comment\r\n\r\n", "event: x\ndata: a longer line than the buffer has\n\n", "\n", "data: cut"}
	if got, err := parted(body, 100); !slices.Equal(got, want) || !errors.Is(err, io.EOF) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := parted(body, 20); !errors.Is(err, errTooLong) || len(strings.Join(got, "")) > 60 {
		t.Errorf("%q, %v", got, err)
	}
}

// FuzzEvents: no byte is lost or added, and each event but the last ends with its first blank line.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(chatBegin + chatMiddle + chatEnd))
	f.Add([]byte(messageBegin))
	f.Add([]byte("\r\n\n\ndata"))
	f.Fuzz(func(t *testing.T, body []byte) {
		found, err := parted(string(body), 1<<20)
		if !errors.Is(err, io.EOF) || strings.Join(found, "") != string(body) {
			t.Fatalf("%q, %v", found, err)
		}
		for i, event := range found {
			lines := bytes.SplitAfter([]byte(event), []byte("\n"))
			for n, line := range lines {
				if blank := len(line) > 0 && len(bytes.TrimRight(line, "\r\n")) == 0 && bytes.HasSuffix(line, []byte("\n")); blank != (n == len(lines)-2) && (i < len(found)-1 || blank) {
					t.Fatalf("event %d is %q", i, event)
				}
			}
		}
	})
}
