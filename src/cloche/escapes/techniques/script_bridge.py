# T68: The bridge of a browser's interpreter to its host: the page's objects, and code in the page's language.
# aim: secret
# sealed: process
# confined: process
# process: process
for name in ("js", "pyodide_js"):
    try:
        page = __import__(name)
        print(getattr(page.process, "env", None))
        print(page.eval("process.env"))
    except (ImportError, AttributeError) as exc:
        print(exc)
