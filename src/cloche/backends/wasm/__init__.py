"""The WebAssembly backend: CPython as a component on wasmtime, in a worker process, with every instruction counted."""
