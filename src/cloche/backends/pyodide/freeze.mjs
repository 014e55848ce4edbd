// Makes the memory snapshot from which sessions start: freeze.mjs FOLDER GUEST TARGET (file URLs of folders, and of the
// file to write). The guest's sources are compiled here, by the interpreter that will run them.
import process from "node:process";

const [folder, guest, target] = Deno.args;
for (const name of ["getuid", "geteuid", "getgid", "getegid"]) process[name] = () => 1000;

const { loadPyodide } = await import(`${folder}/pyodide.mjs`);
const python = await loadPyodide({
  indexURL: decodeURIComponent(new URL(folder).pathname),
  env: { PYTHONHASHSEED: "0" }, // sessions of one snapshot have the same anyway
  _makeSnapshot: true,
});
python.FS.mkdir("/guest");
for (const { name } of Deno.readDirSync(new URL(guest))) {
  if (name.endsWith(".py")) python.FS.writeFile(`/guest/${name}`, Deno.readFileSync(new URL(`${guest}/${name}`)));
}
python.runPython(`
def build():
    with open("/guest/bundle.py") as file:
        code = compile(file.read(), "bundle", "exec")
    space = {"__name__": "bundle", "__file__": "/guest/bundle.py"}
    exec(code, space)
    space["main"](["", "run", "pyodide"])
build()
del build
`);
Deno.writeFileSync(new URL(target), python.makeMemorySnapshot(), { mode: 0o600 });
