"""Guard-rails: what is looked at in a cell before it runs. They help the author of the code; they are no boundary."""
