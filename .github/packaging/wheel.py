#!/usr/bin/env python3
"""Writes Python wheels that contain gaia: wheel.py --out FOLDER PROGRAM...

Each PROGRAM is an executable of gaia. Its version, system and processor are read from what the go command built in, so
no tag can be wrong. pip, pipx and uv put the executable itself into the folder of scripts; no Python runs between. The
same program gives the same bytes. Needs Python 3.9 and 'go version', and nothing else.
"""

import argparse
import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import zipfile

PROJECT, PATH = "gaia_harness", "github.com/gaia-harness/gaia/cmd/gaia"
# Go's programs without cgo need no C library, and Go 1.26 needs macOS 12. A Linux wheel is for glibc and for musl.
PLATFORMS = {
    ("linux", "amd64"): "manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    ("linux", "arm64"): "manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64",
    ("darwin", "amd64"): "macosx_12_0_x86_64",
    ("darwin", "arm64"): "macosx_12_0_arm64",
}
METADATA = """\
Metadata-Version: 2.4
Name: gaia-harness
Version: {version}
Summary: Run GAIA-style benchmarks with an LLM agent, with evidence that anyone can verify
Project-URL: Source, https://github.com/gaia-harness/gaia
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.8
Description-Content-Type: text/markdown

The program `gaia` as one executable. It runs GAIA-style benchmarks with an LLM agent, records evidence of everything that
the agent does, scores, audits, and builds signed packages that anyone can verify.

    gaia run --submit-intent   # a rehearsal: offline, without a key

Documentation: https://github.com/gaia-harness/gaia/tree/main/docs
"""


def built_in(program):
    """Returns the version and the settings that 'go version -m' prints of a program."""
    lines = subprocess.run(["go", "version", "-m", str(program)], check=True, capture_output=True, text=True).stdout.splitlines()
    fields = [line.split("\t")[1:] for line in lines[1:]]
    settings = dict(f[1].split("=", 1) for f in fields if f[0] == "build" and "=" in f[1])
    if ["path", PATH] not in fields:
        sys.exit(f"wheel.py: {program} is not {PATH}")
    if settings.get("CGO_ENABLED") != "0":
        sys.exit(f"wheel.py: {program} was built with cgo, so it needs a C library: build it with CGO_ENABLED=0")
    return next(f[2] for f in fields if f[0] == "mod"), settings


def python_version(version):
    """Returns a version of Go as Python writes it: tags as releases, everything else as a development release."""
    released = re.fullmatch(r"v(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.?(\d+))?", version)
    if released:
        number, stage, n = released.groups()
        return number + ({"alpha": "a", "beta": "b", "rc": "rc"}[stage] + n if stage else "")
    pseudo = re.fullmatch(r"v(\d+\.\d+\.\d+)-(?:.*\.)?(\d{14})-([0-9a-f]{12})(?:\+(dirty))?", version)
    if pseudo:
        number, time, commit, dirty = pseudo.groups()
        return f"{number}.dev{time}+g{commit}" + (f".{dirty}" if dirty else "")
    sys.exit(f"wheel.py: the version {version} is neither a release nor that of a commit: build in a checkout, with -buildvcs=true")


def write(program, out):
    """Writes the wheel of a program, and returns its path."""
    version, settings = built_in(program)
    platform = PLATFORMS.get((settings["GOOS"], settings["GOARCH"]))
    if platform is None:
        sys.exit(f"wheel.py: no wheel is made for {settings['GOOS']} on {settings['GOARCH']}")
    number = python_version(version)
    prefix = f"{PROJECT}-{number}"
    tags = "".join(f"Tag: py3-none-{tag}\n" for tag in platform.split("."))
    licence = pathlib.Path(__file__).resolve().parents[2] / "LICENSE"
    files = {
        f"{prefix}.data/scripts/gaia": program.read_bytes(),
        f"{prefix}.dist-info/licenses/LICENSE": licence.read_bytes(),
        f"{prefix}.dist-info/METADATA": METADATA.format(version=number).encode(),
        f"{prefix}.dist-info/WHEEL": f"Wheel-Version: 1.0\nGenerator: gaia\nRoot-Is-Purelib: false\n{tags}".encode(),
    }
    digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record = f"{prefix}.dist-info/RECORD"
    lines = [f"{name},sha256={digest(data)},{len(data)}\n" for name, data in files.items()]
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    path = out / f"{prefix}-py3-none-{platform}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)  # of 1980, so that the same program gives the same bytes
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
            info.external_attr = (0o100755 if name.endswith("/scripts/gaia") else 0o100644) << 16
            wheel.writestr(info, data, compresslevel=9)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("programs", type=pathlib.Path, nargs="+")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for program in args.programs:
        print(write(program, args.out))


if __name__ == "__main__":
    main()
