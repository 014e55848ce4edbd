"""The process that holds the sessions of one host: the only one that loads wasmtime and compiled guests."""
