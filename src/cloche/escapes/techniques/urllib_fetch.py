# T67: A request by a library, as to a metadata service.
# aim: connected
# sealed: network
# confined: network, landlock
# process: nothing
import urllib.request

try:
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open("http://127.0.0.1:%d/latest/meta-data" % canary["tcp"], timeout=0.3)
except OSError as exc:
    print(exc)
