"""One file a row, or a family of rows."""
