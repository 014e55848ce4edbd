# The interpreter's own watchdog ends the process in a moment.
import faulthandler

faulthandler.dump_traceback_later(0.05, exit=True)
