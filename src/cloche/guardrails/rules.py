"""What the guard-rails report, and what to write instead.

Two lengths of list. The short ones are what a cell in any sandbox is told about. The long ones matter only where no
wall stands behind the guard-rails: they name the ways around the short ones that are known.
"""

from __future__ import annotations

import sys
from types import MappingProxyType

MODULES = frozenset({
    "os", "sys", "subprocess", "socket", "shutil", "pathlib", "tempfile", "multiprocessing", "threading", "ctypes",
    "pickle", "importlib", "builtins", "code", "codeop", "runpy", "pkgutil",
})  # fmt: skip
NAMES = frozenset({
    "__import__", "eval", "exec", "compile", "open", "getattr", "setattr", "delattr", "hasattr", "globals", "locals",
    "vars", "dir", "input", "breakpoint",
})  # fmt: skip
ATTRIBUTES = frozenset({
    "__class__", "__bases__", "__subclasses__", "__mro__", "__dict__", "__globals__", "__locals__", "__code__",
    "__builtins__", "__closure__",
})  # fmt: skip

# -- without a wall ----------------------------------------------------------------------------

MORE_MODULES = frozenset({
    # code from text, code objects, other people's frames
    "annotationlib", "bdb", "cProfile", "compileall", "dis", "doctest", "faulthandler", "gc", "imp", "inspect",
    "linecache", "marshal", "modulefinder", "opcode", "pdb", "profile", "py_compile", "pyclbr", "pydoc", "pstats",
    "rlcompleter", "timeit", "trace", "traceback", "tracemalloc", "unittest", "warnings", "zipapp", "zipimport",
    # processes, threads, the machine
    "_thread", "asyncio", "atexit", "cffi", "concurrent", "curses", "ensurepip", "fcntl", "getpass", "grp", "idlelib",
    "mmap", "msvcrt", "nt", "platform", "posix", "posixpath", "ntpath", "pty", "pwd", "readline", "resource",
    "signal", "site", "sysconfig", "syslog", "termios", "tkinter", "tty", "turtle", "venv", "winreg",
    # files
    "bz2", "configparser", "dbm", "dill", "cloudpickle", "joblib", "filecmp", "fileinput", "glob", "gzip", "logging",
    "aifc", "cgi", "cgitb", "gettext", "lzma", "mailbox", "mimetypes", "netrc", "sunau", "tabnanny", "wave",
    "plistlib", "shelve", "sqlite3", "tarfile", "zipfile",
    # the network
    "aiohttp", "ftplib", "http", "httpx", "imaplib", "nntplib", "poplib",
    "telnetlib", "requests", "select", "selectors", "smtplib",
    "socketserver", "ssl", "urllib", "urllib3", "webbrowser", "wsgiref", "xmlrpc",
})  # fmt: skip

MORE_NAMES = frozenset({
    "__builtins__", "__build_class__", "__loader__", "__spec__", "memoryview", "exit", "quit", "license", "copyright",
    "credits",
})  # fmt: skip

# On objects that are no modules, these stand for the module too: nobody calls a field of his own that. `code` and
# `socket` people do.
TELLING_MODULES = MODULES - {"code", "socket"}

# What modules show of others that they have imported. Fewer than the modules above: `scipy.signal` and `numpy.trace`
# are something else.
REEXPORTED = MODULES | {"gc", "inspect", "linecache", "marshal", "posix", "nt"}

# Other names under which modules of the standard library have them; a test looks through its sources for more.
ALIASES = frozenset({"bltns"})

FRAME_ATTRIBUTES = frozenset({
    "ag_await", "ag_code", "ag_frame", "cr_await", "cr_code", "cr_frame", "cr_origin", "f_back", "f_builtins", "f_code",
    "f_globals", "f_locals", "f_trace", "gi_code", "gi_frame", "gi_yieldfrom", "tb_frame", "tb_next", "func_code",
    "func_globals", "im_func", "im_self", "mro",
})  # fmt: skip

# Every other name with two underscores on either side is reported when it is read from an object. Defining such a
# method is never reported.
HARMLESS_DUNDERS = frozenset({
    "__abs__", "__add__", "__aenter__", "__aexit__", "__aiter__", "__all__", "__and__", "__anext__", "__author__",
    "__bool__", "__bytes__", "__call__", "__cause__", "__ceil__", "__complex__", "__contains__", "__context__",
    "__copy__", "__debug__", "__deepcopy__", "__delitem__", "__divmod__", "__doc__", "__enter__", "__eq__", "__exit__",
    "__float__", "__floor__", "__floordiv__", "__format__", "__ge__", "__getitem__", "__gt__", "__hash__", "__iadd__",
    "__iand__", "__ifloordiv__", "__ilshift__", "__imatmul__", "__imod__", "__imul__", "__index__", "__init__",
    "__init_subclass__", "__int__", "__invert__", "__ior__", "__ipow__", "__irshift__", "__isub__", "__iter__",
    "__itruediv__", "__ixor__", "__le__", "__len__", "__length_hint__", "__lshift__", "__lt__", "__matmul__",
    "__missing__", "__mod__", "__mul__", "__name__", "__ne__", "__neg__", "__new__", "__next__", "__notes__", "__or__",
    "__pos__", "__post_init__", "__pow__", "__radd__", "__rand__", "__rdivmod__", "__repr__", "__reversed__",
    "__rfloordiv__", "__rlshift__", "__rmatmul__", "__rmod__", "__rmul__", "__ror__", "__round__", "__rpow__",
    "__rrshift__", "__rshift__", "__rsub__", "__rtruediv__", "__rxor__", "__setitem__", "__slots__", "__str__",
    "__sub__", "__suppress_context__", "__truediv__", "__trunc__", "__version__", "__xor__",
})  # fmt: skip

# Functions of modules that may otherwise be used, by their full names.
FILE_FUNCTIONS = frozenset({
    "io.open", "io.open_code", "io.FileIO", "io.OpenWrapper", "codecs.open", "tokenize.open",
    "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "numpy.fromfile", "numpy.memmap", "numpy.save", "numpy.savez",
    "numpy.savez_compressed", "numpy.savetxt", "numpy.fromregex", "numpy.DataSource", "numpy.lib.npyio",
    "numpy.lib.format", "numpy.ctypeslib", "numpy.f2py", "numpy.distutils", "numpy.testing", "scipy.io",
    "scipy.LowLevelCallable", "xml.etree.ElementTree.parse", "xml.etree.ElementTree.iterparse",
    "xml.sax.parse", "xml.dom.minidom.parse", "argparse.FileType", "pandas.ExcelFile", "pandas.ExcelWriter",
    "pandas.HDFStore", "pandas.read_clipboard", "pandas.read_csv", "pandas.read_excel", "pandas.read_feather",
    "pandas.read_fwf", "pandas.read_hdf", "pandas.read_html", "pandas.read_json", "pandas.read_orc",
    "pandas.read_parquet", "pandas.read_pickle", "pandas.read_sas", "pandas.read_spss", "pandas.read_sql",
    "pandas.read_stata", "pandas.read_table", "pandas.read_xml",
})  # fmt: skip
FILE_METHODS = frozenset({"tofile", "to_pickle", "to_parquet", "to_feather", "to_hdf", "to_stata", "to_orc"})
TEXT_BUFFERS = frozenset({"StringIO", "BytesIO"})

EVALUATORS = frozenset({
    "types.CellType", "types.CodeType", "types.FunctionType", "types.LambdaType", "types.MethodType",
    "types.ModuleType", "typing.get_type_hints", "typing.ForwardRef", "typing.evaluate_forward_ref",
    "typing_extensions.get_type_hints",
    "sympy.sympify", "sympy.S", "sympy.lambdify", "sympy.parse_expr", "sympy.parsing", "sympy.utilities",
    "pandas.eval", "numexpr.evaluate", "functools.singledispatch", "functools.singledispatchmethod",
})  # fmt: skip
# They reach an attribute by a name that is a string.
BY_NAME = frozenset({"attrgetter", "methodcaller", "get_field"})
# They read attributes that the fields of a string name.
FORMATTING = frozenset({"format", "format_map", "vformat"})
# They reach an entry of a mapping by its key, as a subscript does.
BY_KEY = frozenset({"get", "pop", "setdefault", "itemgetter", "__getitem__"})

KNOWN_MODULES = frozenset(sys.stdlib_module_names) | {"numpy", "np", "pandas", "pd", "scipy", "sympy"}
COMMON_ALIASES = MappingProxyType({"np": "numpy", "pd": "pandas"})

# -- what to write instead ---------------------------------------------------------------------

_FILES = "list_dir(path), file_info(path) and peek(path) look at the files that you may see"
_RUN = "write it as plain Python in this cell"
_HOST = "call a function of the host; list_tools() names them"
_PLAIN_ATTRIBUTE = "write the attribute out: obj.name"
_DATA = "use the objects themselves; keep what you need in variables or a dict of your own"

INSTEAD = MappingProxyType(
    {
        "os": _FILES, "pathlib": _FILES, "shutil": _FILES, "tempfile": _FILES, "glob": _FILES, "open": _FILES,
        "sys": "print() for output, FINAL(answer) to end",
        "subprocess": _RUN, "multiprocessing": _RUN, "code": _RUN, "codeop": _RUN, "runpy": _RUN, "exec": _RUN,
        "compile": _RUN, "asyncio": _RUN, "concurrent": _RUN,
        "threading": "write it as plain Python in this cell; calls that only read are run concurrently anyway",
        "socket": _HOST, "urllib": _HOST, "http": _HOST, "requests": _HOST, "httpx": _HOST, "aiohttp": _HOST,
        "ctypes": _HOST, "tarfile": _HOST, "zipfile": _HOST, "sqlite3": _HOST,
        "pickle": "use json", "marshal": "use json", "dill": "use json", "shelve": "use json",
        "importlib": "write `import name`", "builtins": "builtins need no import", "pkgutil": "write `import name`",
        "__import__": "write `import name`", "__builtins__": "builtins are there by their names",
        "eval": "for data json.loads(text) or ast.literal_eval(text), otherwise plain Python in this cell",
        "getattr": _PLAIN_ATTRIBUTE, "delattr": "write it out: del obj.name",
        "setattr": "write it out: obj.name = value", "hasattr": "try: obj.name; except AttributeError",
        "globals": _DATA, "locals": _DATA, "vars": _DATA, "dir": "list_tools() and help(name) say what there is",
        "input": "nobody is there to answer; peek() and grep() read the context",
        "breakpoint": "nobody is there to answer; print() what you want to see",
        "exit": "FINAL(answer) ends", "quit": "FINAL(answer) ends",
        "memoryview": "use bytes and slices of them",
        "traceback": "print the exception: type(error).__name__ and str(error)",
        "logging": "print()", "warnings": "leave it out",
        "__class__": "type(obj)", "__dict__": "write the attributes out: obj.name",
        "__bases__": "isinstance(obj, cls) or issubclass(cls, other)",
        "__mro__": "isinstance(obj, cls) or issubclass(cls, other)", "mro": "isinstance(obj, cls)",
        "__base__": "issubclass(cls, other)", "__subclasses__": "keep a list of your classes",
        "__traceback__": "print the exception: type(error).__name__ and str(error)",
        "__module__": "type(obj).__name__", "__qualname__": "type(obj).__name__",
        "__getattribute__": _PLAIN_ATTRIBUTE, "__getattr__": _PLAIN_ATTRIBUTE, "__setattr__": "obj.name = value",
    }
)  # fmt: skip
INSTEAD_OF = MappingProxyType(
    {
        "module": _HOST,
        "name": _DATA,
        "attribute": _DATA,
        "frame": "print the exception: type(error).__name__ and str(error)",
        "file": _FILES,
        "buffer": "pass the text itself: io.StringIO(text)",
        "private": "use what the module offers under names without an underscore",
        "evaluator": "write the expression itself, not text of it",
        "format": 'format the values themselves: f"{value}"',
        "key": "if this is data of yours, rename the key",
        "by name": "write the name in the call itself, or use lambda obj: obj.name",
        "match": "match public attributes, or use isinstance()",
        "depth": "put parts of it into variables or functions of their own",
    }
)
