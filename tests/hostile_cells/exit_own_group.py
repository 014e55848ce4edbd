# Ends every process of its own group.
import os
import signal

os.killpg(os.getpgrp(), signal.SIGCONT)
os.killpg(os.getpgrp(), signal.SIGTERM)
