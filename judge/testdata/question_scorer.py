"""The rules of the GAIA leaderboard's scorer, written out for comparison.

Reads JSON objects {"prediction": string or null, "gold": string} one a line
and writes "1" (credited) or "0" for each. With the argument "facts" it reads
nothing and writes, for every code point, how Python reads it: the text that
remains of it alone and in three contexts that make a sigma final or not, and
its value as a number. With "readings" it answers each line ["prediction",
"gold"] at once with the verdict and what it rests on: the gold as a number, the
prediction as an amount, and the prediction's text with and without punctuation.
With "version" it writes the Unicode version in use.

Only interop_test.go runs this file.
"""

import json
import re
import string
import struct
import sys
import unicodedata

AMOUNT_SIGNS = "$%,"


def number(text):
    """The value of a numeral as float() reads it, or None."""
    try:
        return float(text)
    except ValueError:
        return None


def answered_number(text):
    """An answer read as an amount; what is no numeral counts as infinite."""
    for sign in AMOUNT_SIGNS:
        text = text.replace(sign, "")
    value = number(text)
    return float("inf") if value is None else value


def plain(text):
    """Text without white space and case."""
    return re.sub(r"\s", "", text).lower()


def bare(text):
    """Text without white space, case and ASCII punctuation."""
    return plain(text).translate(dict.fromkeys(map(ord, string.punctuation)))


def element_agrees(given, wanted):
    value = number(wanted)
    if value is None:
        return plain(given) == plain(wanted)
    return answered_number(given) == value


def credited(prediction, gold):
    if prediction is None:
        prediction = "None"
    value = number(gold)
    if value is not None:
        return answered_number(prediction) == value
    if "," not in gold and ";" not in gold:
        return bare(prediction) == bare(gold)
    wanted = re.split("[,;]", gold)
    given = re.split("[,;]", prediction)
    return len(given) == len(wanted) and all(map(element_agrees, given, wanted))


def facts(out):
    for point in range(sys.maxunicode + 1):
        if 0xD800 <= point <= 0xDFFF:
            continue
        c = chr(point)
        texts = [plain(t) for t in (c, c + "\u03a3", "A" + c + "\u03a3", "A\u03a3" + c + "B")]
        value = number(c)
        texts.append("-" if value is None else "%d" % value)
        out.write("%x %s\n" % (point, " ".join(t.encode("utf-8").hex() for t in texts)))


def bits(value):
    """A number as the hexadecimal digits of its eight bytes."""
    if value is None:
        return "-"
    return "nan" if value != value else struct.pack(">d", value).hex()


def readings(line):
    prediction, gold = json.loads(line)
    return " ".join([
        "1" if credited(prediction, gold) else "0",
        bits(number(gold)),
        bits(answered_number(prediction)),
        plain(prediction).encode("utf-8").hex(),
        bare(prediction).encode("utf-8").hex(),
    ])


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "score"
    if mode == "version":
        print(unicodedata.unidata_version)
    elif mode == "facts":
        facts(sys.stdout)
    elif mode == "readings":
        for line in sys.stdin:
            print(readings(line), flush=True)
    else:
        for line in sys.stdin:
            case = json.loads(line)
            print("1" if credited(case["prediction"], case["gold"]) else "0")


if __name__ == "__main__":
    main()
