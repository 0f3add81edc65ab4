package document

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
)

func TestEncodings(t *testing.T) {
	little, big := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	for _, test := range []struct {
		encoding   encoding.Encoding
		note, text string
	}{
		{japanese.ShiftJIS, "shift_jis (a guess)", "港の一覧と運賃。今日は晴れです。"},
		{japanese.ShiftJIS, "shift_jis (a guess)", "品名,価格\n林檎,120\n蜜柑,80\n"},
		{japanese.EUCJP, "euc-jp (a guess)", "港の一覧と運賃。今日は晴れです。"},
		{korean.EUCKR, "euc-kr (a guess)", "항구 목록과 운임. 오늘은 맑습니다."},
		{simplifiedchinese.GB18030, "gb18030 (a guess)", "港口列表和票价。今天天气晴朗。"},
		{simplifiedchinese.GBK, "gb18030 (a guess)", "品名,价格\n苹果,120\n橘子,80\n"},
		{traditionalchinese.Big5, "big5 (a guess)", "港口列表和票價。今天天氣晴朗。"},
		{charmap.KOI8R, "koi8-r (a guess)", "Сегодня ясная погода, паром отходит в полдень."},
		{charmap.Windows1251, "windows-1251 (a guess)", "Сегодня ясная погода, паром отходит в полдень."},
		{charmap.Windows1251, "windows-1251 (a guess)", "имя,цена\nяблоко,120\nгруша,80\n"},
		{charmap.Windows1253, "iso-8859-7 (a guess)", "Κατάλογος λιμανιών και ναύλων"},
		{charmap.Windows1252, "windows-1252 (a guess)", "café – 10 €"},
		{charmap.Windows1252, "windows-1252 (a guess)", "Der Fährmann grüßt die Gäste, “höflich” wie immer"},
		{charmap.Windows1252, "windows-1252 (a guess)", "élève,été\nÅrsta,10 °C\nÑandú,±2 µm\n"},
		{little, "utf-16le", "plain words\nand more é\n"},
		{big, "utf-16be", "plain words\nand more é\n"},
		{charmap.ISO8859_2, "iso-8859-2", `<?xml version="1.0" encoding="ISO-8859-2"?><a>Příliš žluťoučký kůň</a>`},
		{charmap.KOI8R, "koi8-r", `<?xml version='1.0' encoding='koi8-r'?><a>да</a>`},
	} {
		data, err := test.encoding.NewEncoder().Bytes([]byte(test.text))
		must(t, err)
		for _, name := range []string{"a.txt", "a.csv", "a.xml"} {
			doc, err := Reader{}.Read(t.Context(), Source{Name: name, Data: data})
			if err != nil || doc.Text != test.text {
				t.Errorf("%s: %q, %v, %q", test.note, doc.Text, err, doc.Notes)
			}
			mustHold(t, name, "|"+strings.Join(doc.Notes, "|")+"|", "|decoded from "+test.note+"|")
		}
	}
	for data, want := range map[string]string{
		"caf\xc3\xa9 na\xc3\xafve \xc3\xbcber" + strings.Repeat("\xe2\x80\x93", 20) + "\x93": "café naïve über" + strings.Repeat("–", 20) + "\ufffd",
		"\xff\xfe\x00\x00a\x00\x00\x00\xe9\x00\x00\x00":                                      "aé",
		"\x00\x00\xfe\xff\x00\x00\x00a\x00\x00\x00\xe9":                                      "aé",
		"one\ftwo\r\n":                        "one\ntwo\n",
		"\x1b$B9A\x1b(B, \x1b$B:#F|\x1b(B.\n": "港, 今日.\n",
		"a \x1b[1mbold\x1b[0m":                "a \x1b[1mbold\x1b[0m",
	} {
		if doc, err := (Reader{}).Read(t.Context(), Source{Name: "a.txt", Data: []byte(data)}); err != nil || doc.Text != want {
			t.Errorf("%q: %q, %v, %q", data, doc.Text, err, doc.Notes)
		}
	}
	doc, err := (Reader{}).Read(t.Context(), Source{Name: "a.tsv", Data: []byte("5\" disk\t1\n\"open\t2\n7\n")})
	if err != nil || !slices.Contains(doc.Notes, "3 rows counting the first") || !slices.Contains(doc.Notes, "1 to 2 columns") {
		t.Errorf("%v, %q", err, doc.Notes)
	}
	long := strings.Repeat("Сегодня ясная погода, паром отходит в полдень.\n", 5000)
	data, err := charmap.KOI8R.NewEncoder().Bytes([]byte(long))
	must(t, err)
	if doc, err := (Reader{}).Read(t.Context(), Source{Data: data}); err != nil || doc.Text != long {
		t.Errorf("long text: %v, %q", err, doc.Notes)
	}
	for _, binary := range []string{"\x00\x01\x00\x02\x00\x03\x00\x04", "\x01\x00\x02\x00\x03\x00\x04\x00", "a\x00\x00\x00b\x00\x00\x00"} {
		if doc, err := (Reader{}).Read(t.Context(), Source{Data: []byte(binary)}); err == nil {
			t.Errorf("%q is read as %q", binary, doc.Text)
		}
	}
}
