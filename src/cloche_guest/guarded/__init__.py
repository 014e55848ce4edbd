"""Guard-rails inside the kernel: code that they refuse is reported as a cell that failed, and not run."""
