# Runs the calls of one attempt, in one process, so that what a call defines is
# there for the next. A request comes on standard input: a line with the mark that
# ends its answer and the bytes of code that follow, "-" for none. All that is
# written to standard output and error goes to one pipe, and so does the mark:
# what was written before it is there before it.
#
# Modules that are written in Python are imported when they are needed: together
# they take longer than the interpreter does to start.
import _ast
import builtins
import os
import sys

texts = {}  # the code of the calls so far, by name


def limit(limits):
    """Sets limits of this process and its children, which nobody can lift."""
    import resource

    for entry in limits:
        name, value = entry.split("=")
        value = int(value)
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
    texts[name] = code
    if "linecache" in sys.modules or "traceback" in code or "inspect" in code:
        try:
            show_lines()
        except BaseException:  # without descriptors: the code runs all the same
            pass
    try:
        tree = compile(code, name, "exec", _ast.PyCF_ONLY_AST)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
        parts = [compile(tree, name, "exec")]
        if last is not None:
            parts.append(compile(_ast.Interactive([last]), name, "single"))
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as e:
        print_exception(e, None)
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
        print_exception(e, e.__traceback__.tb_next)
        return "raised"
    return "ok"


def show_lines():
    """Lets tracebacks show the lines of calls."""
    import linecache

    for name, code in texts.items():
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)


def print_exception(e, tb):
    try:
        show_lines()
        import traceback
    except BaseException:  # there may be no descriptor or memory left to import it
        sys.__excepthook__(type(e), e, tb)
    else:
        traceback.print_exception(type(e), e, tb)


def serve(limits):
    limit(limits)
    requests = os.fdopen(private(0), "rb")
    out = private(1)
    nothing = private(os.open(os.devnull, os.O_RDONLY))
    own = os.getpid()
    main = type(sys)("__main__")
    main.__builtins__ = builtins
    sys.modules["__main__"] = main
    sys.argv = [""]
    sys.path.append(os.getcwd())
    calls = 0
    for line in requests:
        mark, size = line.split()
        status = "ready"
        # A call may have closed or replaced what it was given.
        for fd, source in ((0, nothing), (1, out), (2, out)):
            os.dup2(source, fd)
        sys.stdin = open(0, closefd=False)
        sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
        sys.displayhook = sys.__displayhook__
        if size != b"-":
            calls += 1
            code = str(requests.read(int(size)), "utf-8", "replace")
            try:
                status = execute(code, "<call %d>" % calls, main.__dict__)
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
        write(out, b"%s %s\n" % (mark, status.encode()))


serve(sys.argv[1:])
