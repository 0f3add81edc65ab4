# Runs the calls of one attempt, in one process, so that what a call defines is
# there for the next. Requests come as lines of JSON on standard input. All that
# is written to standard output and error goes to one pipe, and so does the mark
# that ends a call: what was written before it is there before it.
import ast
import builtins
import json
import linecache
import os
import sys
import traceback
import types


def limit(limits):
    """Sets limits of this process and its children, which nobody can lift."""
    import resource

    for name, value in limits.items():
        number = getattr(resource, "RLIMIT_" + name)
        hard = resource.getrlimit(number)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(number, (value, value))


def private(fd):
    """Returns a copy of a descriptor that programs started by a call do not get."""
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)


def write(fd, data):
    while data:
        data = data[os.write(fd, data):]


def execute(code, name, namespace):
    """Runs the code as a prompt would: the value of a last expression is shown."""
    lines = code.splitlines(True)
    linecache.cache[name] = (len(code), None, lines, name)
    try:
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        parts = [compile(tree, name, "exec")]
        if last is not None:
            parts.append(compile(ast.Interactive([last]), name, "single"))
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as e:
        traceback.print_exception(type(e), e, None)
        return "raised"
    try:
        for part in parts:
            exec(part, namespace)
    except SystemExit as e:
        if e.code is None or e.code == 0:
            return "ok"
        print("SystemExit:", e.code, file=sys.stderr)
        return "raised"
    except BaseException as e:
        traceback.print_exception(type(e), e, e.__traceback__.tb_next)
        return "raised"
    return "ok"


def serve(limits):
    limit(limits)
    requests = os.fdopen(private(0), "rb")
    out = private(1)
    nothing = private(os.open(os.devnull, os.O_RDONLY))
    own = os.getpid()
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    sys.modules["__main__"] = main
    sys.argv = [""]
    sys.path.append(os.getcwd())
    calls = 0
    for line in requests:
        request = json.loads(line)
        status = "ready"
        # A call may have closed or replaced what it was given.
        for fd, source in ((0, nothing), (1, out), (2, out)):
            os.dup2(source, fd)
        sys.stdin = open(0, closefd=False)
        sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
        sys.displayhook = sys.__displayhook__
        if "code" in request:
            calls += 1
            try:
                status = execute(request["code"], "<call %d>" % calls, main.__dict__)
            except BaseException as e:  # showing what went wrong went wrong
                status = "raised"
                write(out, ("%s\n" % type(e).__name__).encode("utf-8", "backslashreplace"))
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except BaseException:
                    pass
        if os.getpid() != own:  # the call forked, and its child came back here
            os._exit(0)
        write(out, ("%s %s\n" % (request["mark"], status)).encode())


serve(json.loads(sys.argv[1]))
