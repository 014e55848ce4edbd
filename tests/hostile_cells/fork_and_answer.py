# The child falls out of the cell as its parent does.
import os

x = os.fork()
