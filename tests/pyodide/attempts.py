"""What JavaScript in a sandbox may try against the host: each attempt is one expression, and has an effect if it works.

The expressions find `canary` (addresses of canaries) and `builtin` (the loader of Node's own modules). What they give
is awaited where something can be awaited.
"""

from __future__ import annotations

ATTEMPTS = {
    "read a file": "Deno.readTextFileSync(canary.secret)",
    "read a file by Node": "builtin('node:fs').readFileSync(canary.secret, 'utf8')",
    "read a file by a promise": "Deno.readTextFile(canary.secret)",
    "fetch a file": "fetch('file://' + canary.secret).then((answer) => answer.text())",
    "import a file as text": "import('file://' + canary.secret, {with: {type: 'text'}}).then((it) => it.default)",
    "write a file": "Deno.writeTextFileSync(canary.file, 'was here')",
    "write a file by Node": "builtin('node:fs').writeFileSync(canary.file, 'was here')",
    "write a database": (
        "new (builtin('node:sqlite').DatabaseSync)(canary.folder + '/new.db').exec('CREATE TABLE t (a)')"
    ),
    "read the environment": "Deno.env.get(canary.variable)",
    "read the environment by Node": "process.env[canary.variable]",
    "run a program": "new Deno.Command('/bin/sh', {args: ['-c', `echo was here > ${canary.file}`]}).outputSync()",
    "run a program by Node": "builtin('node:child_process').execFileSync('/bin/sh', ['-c', `echo x > ${canary.file}`])",
    "signal a process": "Deno.kill(canary.pid, 'SIGUSR1')",
    "signal a process by Node": "process.kill(canary.pid, 'SIGUSR1')",
    "connect": "Deno.connect({hostname: '127.0.0.1', port: canary.tcp})",
    "connect by Node": (
        "new Promise((done, fail) => "
        "builtin('node:net').connect(canary.tcp, '127.0.0.1').on('error', fail).on('connect', done))"
    ),
    "connect to a local socket": "Deno.connect({transport: 'unix', path: canary.unix})",
    "fetch": "fetch(`http://127.0.0.1:${canary.tcp}/`).then((answer) => answer.text())",
    "open a WebSocket": "new Promise((done) => { new WebSocket(`ws://127.0.0.1:${canary.tcp}/`).onopen = done; })",
    "open an event source": (
        "new Promise((_, fail) => { new EventSource(`http://127.0.0.1:${canary.tcp}/`).onerror = fail; })"
    ),
    "import a module from the network": "import(`http://127.0.0.1:${canary.tcp}/module.js`)",
    "load a library": (
        "Deno.dlopen('libc.so.6', {kill: {parameters: ['i32', 'i32'], result: 'i32'}}).symbols.kill(canary.pid, 10)"
    ),
}

AWAITED = ("Promise", "fetch(", "import(", "Deno.connect", "Deno.readTextFile(")
SYNCHRONOUS = [name for name, code in ATTEMPTS.items() if not any(word in code for word in AWAITED)]
"""Those that come to something before anything is awaited."""

CLOSED_IMPORTS = {
    "https": "https://deno.land/std/version.ts",
    "jsr": "jsr:@std/cli",
    "npm": "npm:is-odd",
}
"""Modules that Deno would load from the network by rules of their own, whatever is denied."""

ATTEMPT = """
const canary = %s, builtin = process.getBuiltinModule;
let said;
try {
  said = 'got ' + String(await (%s));
} catch (error) {
  said = 'refused ' + String(error);
}
"""


def program(expression: str, addresses: str) -> str:
    """Lines of a module that make one attempt; `said` is what came of it."""
    return ATTEMPT % (addresses, expression)


WORKER = """
import js
from pyodide.code import run_js

start = run_js('''(source) => {
  const shared = new SharedArrayBuffer(1 << 16);
  const body = `self.onmessage = async ({data}) => {
    ${source}
    const text = new TextEncoder().encode(said).subarray(0, 60_000), flag = new Int32Array(data, 0, 1);
    new Uint8Array(data).set(text, 4);
    Atomics.store(flag, 0, text.length);
    Atomics.notify(flag, 0);
  };`;
  const worker = new Worker("data:text/javascript," + encodeURIComponent(body), {type: "module"});
  worker.postMessage(shared);
  return () => {
    const flag = new Int32Array(shared, 0, 1);
    Atomics.wait(flag, 0, 0, 20_000);
    worker.terminate();
    return new TextDecoder().decode(new Uint8Array(shared).slice(4, 4 + flag[0]));
  };
}''')
print(start(SOURCE)())
"""
"""A cell that makes an attempt in a worker of its own: its promises are settled, those of the main thread never are."""
