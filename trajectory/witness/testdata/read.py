"""Reads witness bundles (.rvw) with nothing but Python's standard library.

    read.py [--key FILE] [--values] BUNDLE...

prints a line of JSON for each: what 'gaia witness show --json' prints. With --key
each must be signed with the bytes of that file. With --values the line also has the
sections and the hashes of the trace, in hexadecimal, and whether the whole is what
a writer of the format gives for it. Anything that is not a bundle ends it with an error.
"""

import hashlib
import hmac
import json
import struct
import sys

HEADER = struct.Struct("<IHH16s8sQBBHIIIHHI")  # 64 bytes
SECTION = struct.Struct("<HI")
ENTRY = struct.Struct("<HBB8s8sIII")  # 32 bytes
MAGIC, VERSION, SIGNED, SPEC, TRACE, DIFF, TEST_LOG, LAST, NOTE, GOVERNANCE = 0x52575657, 1, 1, 1, 3, 4, 5, 6, 0x4147, 0x4148


class Malformed(Exception):
    pass


def need(ok, what):
    if not ok:
        raise Malformed(what)


def sections(body, count):
    at, found = 0, []
    for _ in range(count):
        need(at + SECTION.size <= len(body), "a section is cut")
        tag, length = SECTION.unpack_from(body, at)
        at += SECTION.size
        need(length <= len(body) - at, "a section reaches past the end")
        need(tag not in [t for t, _ in found], "a tag stands there twice")
        found.append((tag, body[at : at + length]))
        at += length
    need(at == len(body), "there are bytes after the sections")
    return found


def calls(trace):
    at, found = 0, []
    while at < len(trace):
        need(at + ENTRY.size <= len(trace), "an entry of the trace is cut")
        length, policy, pad, args, result, latency, cost, tokens = ENTRY.unpack_from(trace, at)
        at += ENTRY.size
        need(policy <= 2 and pad == 0 and length <= len(trace) - at, "an entry of the trace is malformed")
        found.append((trace[at : at + length], policy, args, result, latency, cost, tokens))
        at += length
    return found


def count(value):
    return type(value) is int and 0 <= value < 1 << 32


def conduct(value, trace):
    try:
        found = json.loads(value.decode("utf-8"))
        same = len(value) <= 512 and json.dumps(found, separators=(",", ":"), sort_keys=True).encode() == value
    except ValueError:
        raise Malformed("its section on governance is not JSON")
    need(same and type(found) is dict and found.keys() == {"denials", "person_refusals", "recorded", "rollbacks", "rollbacks_correct"}, "its section on governance is malformed")
    denials = found["denials"]
    need(type(denials) is dict and denials.keys() == {"budget", "deny_list", "mode", "rule"} and type(found["recorded"]) is bool, "its section on governance is malformed")
    need(all(map(count, [*denials.values(), found["person_refusals"], found["rollbacks"], found["rollbacks_correct"]])), "its section on governance counts what cannot be")
    need(found["rollbacks_correct"] <= found["rollbacks"] and (trace or not found["rollbacks"]), "its section on governance counts what cannot be")
    denied = sum(1 for call in trace if call[1] == 1)
    counted = denials["deny_list"] + denials["mode"] + found["person_refusals"]
    if denied == len(trace):
        counted += denials["rule"]
    need(counted <= denied, "its section on governance contradicts the trace")
    return found


def read(data, key, values):
    need(len(data) >= HEADER.size, "it is shorter than a header")
    (magic, version, flags, task, policy, created, outcome, mode, tool_calls, cost, latency, tokens, retries, count, size) = HEADER.unpack_from(data)
    need(magic == MAGIC and version == VERSION, "it is not a bundle of version 1")
    need(size == len(data), "its size is not what it says")
    need(outcome <= 3 and mode <= 2, "outcome or mode is none")
    end = len(data)
    if flags & SIGNED:
        end -= 32
        need(end >= HEADER.size, "it is too short for a MAC")
    if key is not None:
        need(flags & SIGNED, "it is not signed")
        mac = hmac.new(key, data[:end], hashlib.sha256).digest()
        need(hmac.compare_digest(mac, data[end:]), "it is not what this key signed")
    found = sections(data[HEADER.size : end], count)
    tags = {tag for tag, _ in found}
    need(flags & 0x7E == sum(1 << tag for tag in tags if 1 <= tag <= LAST), "flags and sections differ")
    trace = calls(dict(found).get(TRACE, b""))
    need(TRACE not in tags or len(trace) == tool_calls, "the calls are counted wrong")
    out = {
        "task_id": task.hex(), "policy_hash": policy.hex(), "created_ns": created, "outcome": outcome, "mode": mode, "flags": flags,
        "signed": bool(flags & SIGNED), "tool_calls": tool_calls, "cost": cost, "latency_ms": latency, "tokens": tokens, "retries": retries,
        "sections": count, "size": size, "evidence_complete": {SPEC, DIFF, TEST_LOG} <= tags,
        "trace": [{"action": c[0].decode("utf-8", "replace"), "policy": c[1], "latency_ms": c[4], "cost": c[5], "tokens": c[6]} for c in trace],
    }
    if dict(found).get(NOTE) == b"rehearsal":
        out["rehearsal"] = True
    if GOVERNANCE in tags:
        out["conduct"] = conduct(dict(found)[GOVERNANCE], trace)
    if values:
        out["values"] = [[tag, value.hex()] for tag, value in found]
        out["hashes"] = [[c[2].hex(), c[3].hex()] for c in trace]
        again = HEADER.pack(MAGIC, VERSION, flags, task, policy, created, outcome, mode, tool_calls, cost, latency, tokens, retries, len(found), size)
        again += b"".join(SECTION.pack(tag, len(value)) + value for tag, value in found)
        out["canonical"] = again == data[:end]
    return out


def main(args):
    key, values = None, False
    while args and args[0].startswith("--"):
        option = args.pop(0)
        if option == "--values":
            values = True
        elif option == "--key" and args:
            with open(args.pop(0), "rb") as file:
                key = file.read()
        else:
            sys.exit(__doc__)
    for path in args:
        with open(path, "rb") as file:
            data = file.read()
        try:
            print(json.dumps(read(data, key, values), ensure_ascii=False, separators=(",", ":")))
        except Malformed as error:
            sys.exit(f"{path}: {error}")


main(sys.argv[1:])
