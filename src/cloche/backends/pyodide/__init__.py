"""The Pyodide wall: CPython as WebAssembly in a Deno process that has no permission to anything."""
