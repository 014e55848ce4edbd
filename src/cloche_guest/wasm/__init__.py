"""The guest as a WebAssembly component: what stands in for descriptors, signals and an operating system."""
