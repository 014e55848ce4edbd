// A client of the daemon in 60 lines, written from docs/daemon.md alone. Run it with Deno:
//   cloche daemon start
//   deno run --allow-net --allow-read --allow-write --allow-env examples/daemon_client.js
const path = Deno.env.get("CLOCHE_DAEMON_SOCKET") ?? `${Deno.env.get("HOME")}/.rlm/daemon.sock`;
const token = (await Deno.readTextFile(path.replace(/\.[^.]*$/, ".token"))).trim();
const connection = await Deno.connect({ transport: "unix", path });
const waiting = new Map();
let lastId = 0;

async function send(message) {
  let bytes = new TextEncoder().encode(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
  while (bytes.length > 0) bytes = bytes.subarray(await connection.write(bytes));
}

function call(method, params = {}) {
  const id = ++lastId;
  const answer = new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
  send({ id, method, params });
  return answer;
}

// What code inside the sandbox may ask of us.
function answerBridge({ name, args }) {
  if (name === "llm_query") return `you said: ${args[0]}`;
  if (name === "add") return args[0] + args[1];
  throw new Error(`there is no ${name}`);
}

function take(message) {
  if (message.method === "bridge") {
    try {
      send({ id: message.id, result: answerBridge(message.params) });
    } catch (error) {
      send({ id: message.id, error: { code: -32000, message: String(error) } });
    }
  } else if (message.method === "output") {
    console.log(`${message.params.stream}: ${message.params.text.trimEnd()}`);
  } else if (waiting.has(message.id)) {
    const { resolve, reject } = waiting.get(message.id);
    waiting.delete(message.id);
    message.error ? reject(new Error(message.error.message)) : resolve(message.result);
  }
}

async function listen() {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of connection.readable) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop();
    lines.forEach((line) => take(JSON.parse(line)));
  }
}

listen();
await call("auth", { token });
const { session } = await call("session.open", { bridges: ["llm_query"], tools: [{ name: "add", doc: "adds" }] });
await call("session.execute", { session, code: "print('working', flush=True); x = add(40, 2)", live: true });
console.log("x =", (await call("session.get_variable", { session, name: "x" })).value);
console.log((await call("session.execute", { session, code: "llm_query('hello')" })).value);
const failed = await call("session.execute", { session, code: "1 / 0" });
console.log(failed.outcome, failed.error);
await call("session.close", { session });
Deno.exit(0);
