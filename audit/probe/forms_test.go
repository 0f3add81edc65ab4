package probe

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

const leakedText = `In the keeper's log of the Skerry lighthouse for 1871, which "bird" is said to have broken the lamp's glass ` +
	"on the night after the supply ship failed to come? Give the name as the keeper wrote it.\nFinal answer: Grey Heron\n"

func wrapped(s string, width int, end string) string {
	var out strings.Builder
	for len(s) > width {
		out.WriteString(s[:width] + end)
		s = s[width:]
	}
	return out.String() + s
}

// lines returns a text in lines of whole words.
func lines(s string, width int) []string {
	var all []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && len(line)+len(word) >= width {
			all, line = append(all, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(all, line)
}

func numbered(s, format string, from int) string {
	var out strings.Builder
	for i, line := range lines(s, 34) {
		fmt.Fprintf(&out, format, from+i, line)
	}
	return out.String()
}

func inColumns(left, right []string) string {
	var out strings.Builder
	for i := range max(len(left), len(right)) {
		l, r := "", ""
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		out.WriteString(strings.TrimRight(fmt.Sprintf("%-44s%s", l, r), " ") + "\n")
	}
	return out.String()
}

func replaced(s string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(s) }

// The question and its answer are found in every disguise.
func TestDisguises(t *testing.T) {
	std, raw := base64.StdEncoding.EncodeToString, base64.RawURLEncoding.EncodeToString
	text := []byte(leakedText)
	question, answer, _ := strings.Cut(leakedText, "\n")
	answerLine := []byte("The reference solution that graders use. " + answer)
	prose := lines(strings.Repeat("Boats lay in the harbour that winter and no one counted them at all. ", 8), 36)
	turned := []byte(strings.ToLower(leakedText))
	for i, c := range turned {
		turned[i] = byte(rot13(rune(c)))
	}
	disguises := map[string]string{
		"base64":                     std(text),
		"base64 for addresses":       raw(text),
		"base64 in lines":            wrapped(std(text), 76, "\r\n"),
		"base64 in indented lines":   wrapped(std(text), 60, "\n    "),
		"base64 in narrow lines":     wrapped(std(text), 20, "\n"),
		"base64 in an address":       "https://mirror.example/r/" + raw(text) + "?x=1",
		"base64 in a data URL":       `<a href="x">see</a> data:text/plain;base64,` + std(text),
		"base64 in JSON":             `{"content":"` + wrapped(std(text), 64, `\n`) + `","encoding":"base64"}`,
		"base64 twice":               std([]byte(std(text))),
		"hex in base64":              std([]byte(hex.EncodeToString(text))),
		"base64 of HTML":             std([]byte("<p>" + strings.ReplaceAll(question, " ", "&#32;") + "</p><p>" + answer + "</p>")),
		"hex":                        hex.EncodeToString(text),
		"hex in upper case":          "0x" + strings.ToUpper(hex.EncodeToString(text)),
		"hex in pairs":               wrapped(hex.EncodeToString(text), 2, " "),
		"hex with colons":            strings.ToUpper(wrapped(hex.EncodeToString(text), 2, ":")),
		"hex in lines":               wrapped(hex.EncodeToString(text), 64, "\n"),
		"percent":                    url.PathEscape(leakedText),
		"percent of every character": "%" + wrapped(hex.EncodeToString(text), 2, "%"),
		"query string":               "q=" + url.QueryEscape(leakedText),
		"percent twice":              url.QueryEscape(url.QueryEscape(leakedText)),
		"base64, percent":            url.QueryEscape(std(text)),
		"answer alone in base64":     question + "\n" + std(answerLine),
		"question alone in base64":   std([]byte(question)) + "\n" + answer,
		"answer alone in hex":        question + "\n" + hex.EncodeToString(answerLine),
		"rot13":                      string(turned),
		"answer alone in rot13":      question + "\nSvany nafjre: Terl Ureba",
		"rot13 in base64":            std(turned),
		"homoglyphs":                 replaced(leakedText, "a", "а", "e", "е", "o", "ο", "p", "р", "c", "с", "i", "і", "H", "Н"),
		"wide letters":               replaced(leakedText, "a", "ａ", "e", "ｅ", "G", "Ｇ"),
		"mathematical letters":       replaced(leakedText, "a", "𝐚", "e", "𝑒", "r", "𝓻"),
		"accents added":              replaced(leakedText, "a", "à", "e", "ê", "o", "ø", "i", "ı", "l", "ł"),
		"combining marks":            replaced(leakedText, "a", "a\u0323\u0301", "e", "e\u034f"),
		"zero-width characters":      replaced(leakedText, "e", "e\u200b", "a", "\u2060a"),
		"soft hyphens":               replaced(leakedText, "ee", "e&shy;e", "gh", "g\u00adh"),
		"soft hyphens at line ends":  replaced(leakedText, "ee", "e\u00ad\ne", "He", "H\u00ad\r\ne", "gh", "g\u00ad\n  h"),
		"wbr":                        replaced(leakedText, "ee", "e<wbr>e", "ro", "r<wbr/>o", "gh", "g<wbr>h"),
		"tags inside words":          replaced(leakedText, "ee", "e</b><b>e", "er", "<i>e</i>r", "gh", "g<span>h</span>"),
		"hyphens at line ends":       replaced(leakedText, "ee", "e-\ne", "gh", "g-\r\n  h", "Her", "He-<br>\nr", "wro", "wr‐\no"),
		"numbers and bars":           numbered(leakedText, "%4d | %s\n", 1),
		"numbers and colons":         numbered(leakedText, "%d: %s\n", 118),
		"numbers, as from grep":      numbered(leakedText, "%d:%s\n", 9),
		"numbers and spaces":         numbered(leakedText, "%3d  %s\n", 7),
		"numbers and tabs":           numbered(leakedText, "%d\t%s\n", 1000),
		"numbers and arrows":         numbered(leakedText, "%6d→%s\n", 1),
		"numbers and hyphens":        numbered(strings.ReplaceAll(leakedText, "ee", "e- e"), "%2d | %s\n", 1),
		"numbers with zeros":         numbered(leakedText, "L%04d: %s\n", 1),
		"left of two columns":        inColumns(lines(leakedText, 38), prose),
		"right of two columns":       "The log\n\n" + inColumns(prose, lines(leakedText, 38)) + "\nThe whole log lies in the archive of the harbour office in the town.\n",
		"across two columns":         inColumns(lines(question, 30)[:3], append(lines(question, 30)[3:], answer)) + inColumns(prose, prose),
		"letters spaced out":         strings.Join(strings.Split(leakedText, ""), " "),
		"answer spaced out":          question + "\nFinal answer: G r e y   H e r o n",
		"answer with points":         question + "\nFinal answer: G.r.e.y H.e.r.o.n",
		"hex escapes":                `\x` + wrapped(hex.EncodeToString([]byte(strings.ReplaceAll(leakedText, "\n", " "))), 2, `\x`),
	}
	p := New(lighthouse)
	for name, document := range disguises {
		for _, around := range []string{"%s", "Boats lay in the harbour.\n\n%s\n\nNobody counted 17 of them.", `<div>%s</div>`} {
			document := strings.Replace(around, "%s", document, 1)
			got := p.Probe(document, "", nil)
			if got.QCovNoEcho < WholeQuestion || !got.GoldNear || got.GoldHits == 0 {
				t.Errorf("%s: coverage %d, gold near %v, %d hits in %.400q", name, got.QCovNoEcho, got.GoldNear, got.GoldHits, document)
			}
			if got := New(withGold("Great Auk")).Probe(document, "", nil); got.GoldNear || got.GoldHits > 0 {
				t.Errorf("%s: another gold was found", name)
			}
			said := p.Probe(document, document, nil)
			if said.QCovNoEcho > 0 || said.GoldNear {
				t.Errorf("%s: the call said all of it, and %d of the question is no echo", name, said.QCovNoEcho)
			}
		}
	}
}

// Ids are found in the same disguises.
func TestDisguisedIDs(t *testing.T) {
	row := `{"task_id":"` + ownID + `","Final answer":"Grey Heron"}`
	documents := map[string]string{
		"base64":          base64.StdEncoding.EncodeToString([]byte(row)),
		"hex":             hex.EncodeToString([]byte(row)),
		"percent":         url.QueryEscape(row),
		"numbered lines":  "1 | " + ownID[:19] + "\n2 | " + ownID[19:] + "\n3 | Final answer: Grey Heron\n",
		"hyphens at ends": "task_id: " + ownID[:11] + "-\n" + ownID[11:] + "\nFinal answer: Grey Heron",
		"columns":         inColumns([]string{"task " + ownID[:18], ownID[18:], "Final answer of the keeper", "Grey Heron", "and no more"}, lines(strings.Repeat("Boats lay in the harbour. ", 6), 30)),
	}
	p := New(lighthouse)
	for name, document := range documents {
		if got := p.Probe(document, "", nil); !got.OwnUUID || !got.UUIDGoldNear {
			t.Errorf("%s: %+v in %q", name, got, document)
		}
	}
}

// What is no disguise has one form, so that it costs nothing.
func TestOneForm(t *testing.T) {
	documents := map[string]string{
		"digests":         strings.Repeat("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  file\n", 4),
		"hardware ids":    strings.Repeat("9f:86:d0:81:88:4c:7d:65:9a:2f:ea:a0:c5:5a:d0:15:a3:bf:4f:1b:2b:0b:82:2c:d1:5d\n", 4),
		"two-digit cells": strings.Repeat("12 34 56 78 90 11 22 33 44 55 66 77 88 99 10 20 30 40 50 60 70 80 90\n", 4),
		"object ids":      strings.Repeat("commit 2753158b6f0d5a39f4b1c2d3e4f5061728394a5b\n", 4),
		"picture":         "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
		"key":             "AAAAC3NzaC1lZDI1NTE5AAAAIC2t66Y8jqA6iglM/+cf9SK9to/kWF5ZOKQuzBizIkt0",
		"addresses":       "https://harbour.example/archive/keepers/log-of-the-skerry-lighthouse/volume-seventeen/of-many",
		"identifiers":     "thisIsAnIdentifierOfAProgramThatIsFarLongerThanItShouldBe = aVeryLongNameForAFunctionOfNoUse();",
		"script":          `!function(e,t){for(var n=0;n<t.length;n++)e[n]=t[n]%3}([1,2],[3]);`,
		"width":           "width: 100%; height: 50%",
		"real hyphens":    "a well-\nknown keeper, an often-\nseen bird",
		"years":           "1870 12 ships\n1871 14 ships\n",
		"numbers in rows": "Oil      317.5     12\nWicks    12.0      44\nGlass    3         7\nRope     11        9\nCloth    8         2\n",
		"listing":         "- a\n- b\n- c\n",
	}
	p := New(lighthouse)
	for name, document := range documents {
		n := 0
		p.eachForm(document, func(text probeText) hints {
			n++
			return p.read(text, echo{lexicon: p.lexicon}, nil, false).hints
		})
		if n != 1 {
			t.Errorf("%s: %d forms", name, n)
		}
	}
}

// A number of a line is no gold answer, but that of a year or of a table is.
func TestNumberedLines(t *testing.T) {
	listing := numbered(lighthouse.Question, "%3d | %s\n", 1)
	for _, gold := range []string{"3", "1", "5"} {
		if got := New(withGold(gold)).Probe(listing, "", nil); got.GoldHits > 0 || got.GoldNear || got.QCovNoEcho != 1000 {
			t.Errorf("gold %s: %+v", gold, got)
		}
	}
	tests := []struct {
		gold, document string
		hits           int
	}{
		{"1871", "1870  12 ships\n1871  14 ships\n1872  9 ships\n1873  none\n", 1},
		{"1871", "1870: the lamp\n1871: the glass\n1872: the oil\n", 1},
		{"1871", "14 ships in 1871\n12 ships in 1870\n", 1},
		{"1250", "1  candles 1250\n2  lamps 3\n3  keepers 2\n", 1},
		{"1250", "1249 | a\n1250 | b\n1252 | c\n", 1},
		{"41", "40 | the answer: 41\n41 | a\n42 | b\n", 1},
		{"41", "40 | the answer\n41 | a\n42 | b\n", 0},
	}
	for _, tt := range tests {
		if got := New(withGold(tt.gold)).Probe(tt.document, "", nil).GoldHits; got != tt.hits {
			t.Errorf("gold %s: %d hits, want %d in %q", tt.gold, got, tt.hits, tt.document)
		}
	}
}

// Texts in other scripts still match themselves, in either case, and not others.
func TestOtherScripts(t *testing.T) {
	tests := []struct{ question, gold, other string }{
		{"В каком году смотритель маяка Скерри записал в журнал имя птицы, разбившей стекло лампы?", "Серая цапля", "Белая цапля"},
		{"Ποιο πουλί έσπασε το γυαλί της λάμπας του φάρου τη νύχτα μετά την καταιγίδα του χειμώνα;", "Σταχτοτσικνιάς", "Αργυροτσικνιάς"},
		{"灯台の守り人は、補給船が来なかった夜の後に、どの鳥がランプの硝子を割ったと日誌に書いたか。", "アオサギ", "シロサギ"},
		{"Który ptak rozbił szkło lampy w nocy po tym, jak statek z zaopatrzeniem nie przypłynął do latarni?", "Czapla siwa", "Żuraw"},
	}
	for _, tt := range tests {
		task := Target{TaskID: ownID, Question: tt.question, Gold: tt.gold}
		for _, document := range []string{tt.question + "\n" + tt.gold, strings.ToUpper(tt.question + "\n" + tt.gold), url.QueryEscape(tt.question + "\n" + tt.gold), base64.StdEncoding.EncodeToString([]byte(tt.question + "\n" + tt.gold))} {
			if got := New(task).Probe(document, "", nil); got.GoldHits != 1 || len(strings.Fields(tt.question)) > fewestWords && got.QCov != 1000 {
				t.Errorf("%s: %+v", document, got)
			}
		}
		if got := New(task).Probe(tt.question+"\n"+tt.other, "", nil); got.GoldHits != 0 {
			t.Errorf("%s for %s: %+v", tt.other, tt.gold, got)
		}
	}
}

// A question that holds an encoding itself: what the encoding stands for is not
// found where the question is quoted.
func TestEncodedQuestion(t *testing.T) {
	code := base64.StdEncoding.EncodeToString([]byte("The keeper of the light wrote Grey Heron"))
	task := withGold("Grey Heron")
	task.Question = "What bird does the keeper name in the message " + code + " that stands on the last page of the log?"
	if got := New(task).Probe(task.Question, "", nil); got.GoldHits > 0 || got.QCov != 1000 {
		t.Errorf("%+v", got)
	}
}
