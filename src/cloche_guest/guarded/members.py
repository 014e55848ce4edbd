"""What restricted code may import, and which members of that are kept from it. Guard-rails: no list is complete."""

from __future__ import annotations

MODULES = frozenset(
    {
        "abc", "array", "base64", "binascii", "bisect", "calendar", "cmath", "collections", "contextlib", "copy", "csv",
        "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools", "graphlib", "hashlib",
        "heapq", "hmac", "html", "io", "itertools", "json", "math", "numbers", "operator", "pprint", "random", "re",
        "secrets", "statistics", "string", "struct", "textwrap", "time", "typing", "unicodedata",
        "urllib.parse", "uuid", "zlib", "zoneinfo",
        "numpy", "pandas", "scipy", "sympy",
    }
)  # fmt: skip
"""The default of ``modules=``. What lies below one of them is allowed too."""

ONLY = {
    "io": frozenset({"StringIO", "BytesIO", "SEEK_SET", "SEEK_CUR", "SEEK_END"}),
}
"""Modules of which only these members are given."""

_FILES = "hand the data over as context or a variable"
_TEXT_AS_CODE = "it evaluates text; write the expression as code"
_NAMED = "it reads attributes by name; write lambda x: x.name"

REFUSED = {
    "operator": {"attrgetter": _NAMED, "methodcaller": _NAMED},
    "string": {"Formatter": "use an f-string or str.format"},
    "typing": {"get_type_hints": _TEXT_AS_CODE, "ForwardRef": _TEXT_AS_CODE, "evaluate_forward_ref": _TEXT_AS_CODE},
    "functools": {"singledispatchmethod": "use functools.singledispatch"},
    "numpy": dict.fromkeys(
        ("load", "loadtxt", "genfromtxt", "fromregex", "fromfile", "memmap", "save", "savez", "savez_compressed",
         "savetxt", "DataSource", "lib", "ctypeslib", "f2py", "testing", "distutils", "compat"),
        _FILES,
    ),
    "scipy": dict.fromkeys(("io", "datasets", "weave"), _FILES),
    "sympy": dict.fromkeys(
        ("sympify", "parse_expr", "parsing", "lambdify", "S", "preview", "utilities"), _TEXT_AS_CODE
    ),
    "pandas": {
        **dict.fromkeys(
            ("read_csv", "read_excel", "read_feather", "read_fwf", "read_gbq", "read_hdf", "read_html", "read_json",
             "read_orc", "read_parquet", "read_pickle", "read_sas", "read_spss", "read_sql", "read_sql_query",
             "read_sql_table", "read_stata", "read_table", "read_xml", "read_clipboard", "read_iceberg",
             "ExcelFile", "ExcelWriter", "HDFStore", "to_pickle", "io", "compat", "core", "util", "api", "testing"),
            _FILES,
        ),
        "eval": _TEXT_AS_CODE,
    },
}  # fmt: skip
"""Members that are kept back, and what to do instead."""

REFUSED_METHODS = {
    "numpy": dict.fromkeys(("tofile", "dump", "ctypes"), _FILES),
    "pandas": {
        **dict.fromkeys(
            ("to_pickle", "to_hdf", "to_sql", "to_feather", "to_parquet", "to_stata", "to_excel", "to_clipboard",
             "to_gbq", "to_orc", "to_iceberg"),
            _FILES,
        ),
        "eval": _TEXT_AS_CODE,
        "query": "it evaluates text; use a mask such as df[df.x > 1]",
    },
}  # fmt: skip
"""The same for methods of the objects of a package."""

_MAGIC = (
    "init", "post_init", "repr", "str", "bytes", "bool", "len", "length_hint", "hash", "call", "iter", "next",
    "reversed", "contains", "getitem", "setitem", "delitem", "missing", "enter", "exit", "lt", "le", "eq", "ne",
    "gt", "ge", "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift",
    "and", "or", "xor", "radd", "rsub", "rmul", "rmatmul", "rtruediv", "rfloordiv", "rmod", "rdivmod", "rpow",
    "rlshift", "rrshift", "rand", "ror", "rxor", "iadd", "isub", "imul", "imatmul", "itruediv", "ifloordiv",
    "imod", "ipow", "ilshift", "irshift", "iand", "ior", "ixor", "neg", "pos", "abs", "invert", "int", "float",
    "complex", "index", "round", "trunc", "floor", "ceil", "format",
)  # fmt: skip
MAGIC_METHODS = frozenset("__%s__" % name for name in _MAGIC)
"""Methods that a class may define, and ask its base for."""

RICH_FORMS = frozenset("_repr_%s_" % form for form in ("html", "markdown", "svg", "latex", "png", "jpeg"))
"""What a class may define to be shown better than as text."""

READABLE = MAGIC_METHODS | {"__name__", "__qualname__", "__doc__"}
"""Attributes that begin with an underscore and may be read all the same."""

NOT_HERE = {
    "open": "hand the data over as context or as a variable",
    "eval": "write the expression as code; json.loads reads data",
    "exec": "write the statements as code",
    "compile": "write it as code",
    "globals": "keep values in a dict",
    "locals": "keep values in a dict",
    "vars": "name the attributes that you want",
    "dir": "name the attributes that you want",
    "breakpoint": "print what you want to see",
}
"""Builtins that say what to use in their place."""


def allows(modules: frozenset[str], name: str) -> bool:
    """Whether a module may be imported: it is listed, or lies below one that is."""
    while name:
        if name in modules:
            return True
        name = name.rpartition(".")[0]
    return False
