package audit

import (
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

const (
	softHyphen = '\u00ad'
	hyphen     = '\u2010' // what NFKC makes of the non-breaking hyphen, too
)

// foldedRune is what a character becomes: a character and perhaps an ASCII
// letter behind it. It is zero for a character that is dropped.
type foldedRune struct {
	first  rune
	second byte
}

// foldedRunes maps the characters below U+2000.
//
// A character becomes its lower case. Latin, Greek and Cyrillic letters lose
// their diacritics. Letters that look like a Latin one become it: the table is
// the part of Unicode's confusables (UTS #39) that concerns single letters of
// Greek, Cyrillic and Armenian and the small capitals. It does not depend on
// what stands around a letter, so that texts in these scripts still match
// themselves. Format characters, combining diacritical marks and fillers are dropped.
var foldedRunes = sync.OnceValue(func() *[0x2000]foldedRune {
	alike := map[rune]rune{}
	pair := func(others, latin string) {
		letters := []rune(latin)
		for i, r := range []rune(others) {
			alike[r] = letters[i]
		}
	}
	pair("авсеһіјкӏмнорԛѕтѵԝхуԁгүѡ", "abcehijklmhopqstvwxydryw") // Cyrillic
	pair("αβεηικνορτυχωςγ", "abehikvoptyxwσy")                   // Greek; the final sigma is a sigma
	pair("օոսհզցյ", "onuhqgj")                                   // Armenian
	pair("ᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀᴛᴜᴠᴡʏᴢɑɡɩ", "abcdeghijklmnoprtuvwyzagi")
	pair("øłđħıŧðƒ", "oldhitdf")
	double := map[rune]foldedRune{'ß': {'s', 's'}, 'æ': {'a', 'e'}, 'œ': {'o', 'e'}, 'þ': {'t', 'h'}}

	table := new([0x2000]foldedRune)
	for i := range table {
		r := rune(i)
		switch {
		case unicode.Is(unicode.Cf, r), r >= 0x300 && r <= 0x36f, r == 0x115f, r == 0x1160, r >= 0x180b && r <= 0x180f:
			continue
		case r < 0x80:
			table[i] = foldedRune{first: unicode.ToLower(r)}
			continue
		}
		r = unicode.ToLower(r)
		if unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic) {
			for _, base := range norm.NFD.String(string(r)) {
				r = base
				break
			}
		}
		f, ok := double[r]
		if !ok {
			f.first = r
			if latin, ok := alike[r]; ok {
				f.first = latin
			}
		}
		table[i] = f
	}
	return table
})
