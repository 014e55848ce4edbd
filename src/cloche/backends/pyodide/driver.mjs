// Runs the guest's kernel in Pyodide: driver.mjs FOLDER SNAPSHOT [ahead] (file URLs). Descriptor 0 is the wire's input (see
// reader.mjs), 1 its output.
//
// Python runs on this thread and never gives it back: no promise of sandboxed code is ever settled here.
import process from "node:process";
import { followFiles } from "./files.mjs";
import { makeDeterministic } from "./deterministic.mjs";
import { addDevices } from "./devices.mjs";
import { LENGTH, SIGNAL, WORDS } from "./ring.mjs";

const FATAL = 134; // an aborted process
const LARGE = 1 << 20; // bytes of a program that can only be the interpreter
const [folder, snapshot, ahead] = Deno.args;
const { stdout, stderr, exit } = Deno;
const encoder = new TextEncoder();

const control = new SharedArrayBuffer(WORDS * 4), bytes = new SharedArrayBuffer(LENGTH);
const reader = new Worker(new URL("./reader.mjs", import.meta.url), { type: "module" });
reader.postMessage({ control, bytes });

// Python asks for these through C, where a refused permission would end the interpreter.
for (const name of ["getuid", "geteuid", "getgid", "getegid"]) process[name] = () => 1000;
process.getBuiltinModule("node:child_process").spawnSync = () => ({ status: 127, signal: null }); // os.system

// What other threads can do is begun first: reading the snapshot, compiling the interpreter.
const memory = Deno.readFile(new URL(snapshot));
const compiled = Deno.readFile(new URL(`${folder}/pyodide.asm.wasm`)).then((code) => WebAssembly.compile(code));
const { instantiate } = WebAssembly;
WebAssembly.instantiate = async (code, imports) => {
  if (!(code.byteLength > LARGE)) return instantiate(code, imports);
  const module = await compiled;
  return { module, instance: await instantiate(module, imports) };
};

const read = (name) => Deno.readTextFileSync(new URL(`${folder}/${name}`));
// Imported as a module, its largest part would be taken apart by Deno each time; as a script it is not.
const createPyodideModule = (0, eval)(
  read("pyodide.asm.mjs").replace("export default", "").replaceAll("import.meta.url", JSON.stringify(folder)),
);
// The list of packages is long, and none of them is here.
const lock = read("pyodide-lock.json");
const lockFileContents = JSON.parse(lock.slice(0, lock.indexOf('"packages"')) + '"packages": {}}');

const { loadPyodide } = await import(`${folder}/pyodide.mjs`);
const python = await loadPyodide({
  indexURL: decodeURIComponent(new URL(folder).pathname),
  env: {},
  createPyodideModule,
  lockFileContents,
  _loadSnapshot: memory,
});
WebAssembly.instantiate = instantiate;
// From here on nothing on this machine can be read, by us or by anybody in here.
Deno.permissions.revokeSync({ name: "read" });

function refuse(number) {
  return () => {
    throw new python.FS.ErrnoError(number);
  };
}

const ENETUNREACH = 40, EOPNOTSUPP = 138;
// Sockets of Emscripten are WebSockets; what their set-up throws would end the interpreter.
Object.assign(python._module.SOCKFS.websocket_sock_ops, { connect: refuse(ENETUNREACH), listen: refuse(EOPNOTSUPP) });

const { writeAll, setAlarm, moveWith, isIdle } = addDevices(python, control, bytes, stdout);
const files = followFiles(python, "/app", (message) => writeAll(encoder.encode(JSON.stringify(message) + "\n")));
python.setInterruptBuffer(new Uint8Array(control, SIGNAL * 4, 1));

// Its own way of failing ends the interpreter for good and tells the console; ours is at the end of this file.
python._api.fatal_error = (error) => {
  throw error;
};
const [begin, serve, recover] = python.globals.get("cloche_entries");
python.globals.delete("cloche_entries");
const fix = () => moveWith(makeDeterministic());
const mayRehearse = ahead !== undefined && isIdle();
begin({ ...files, mayRehearse, alarm: setAlarm, fix, memory: () => python._module.HEAPU8.length });

function leave(status) {
  files.send();
  exit(status);
}

const stack = python._module.stackSave();
for (let trouble = null;;) {
  try {
    if (trouble !== null) recover(trouble);
    trouble = null;
    serve();
    leave(0);
  } catch (error) {
    if (typeof error?.status === "number") leave(error.status & 0xff);
    // Too deep a recursion in C: V8 has taken all frames off the stack, and Python can go on from the bottom.
    if (trouble !== null || !(error instanceof RangeError)) {
      stderr.writeSync(encoder.encode(`${error}\n`.slice(0, 2000)));
      leave(FATAL);
    }
    python._module.stackRestore(stack);
    trouble = String(error.message);
  }
}
