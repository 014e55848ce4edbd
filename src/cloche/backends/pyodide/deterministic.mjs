// A world in which nothing differs from one run to the next: a clock that moves when it is looked at or slept by, and
// numbers that look random.

const START = Date.UTC(2000, 0, 1);
const GLANCE = 0.01; // milliseconds that pass with each look

export function makeDeterministic() {
  let now = 0, state = 0x9e3779b9;
  const look = () => now += GLANCE;
  const random = () => { // xorshift
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
  const fill = (view) => {
    const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    for (let at = 0; at < bytes.length; at++) bytes[at] = random() >>> 24;
    return view;
  };
  Date.now = () => START + look();
  performance.now = look;
  Math.random = () => random() / 2 ** 32;
  crypto.getRandomValues = fill;
  // what Emscripten has asked for already
  process.getBuiltinModule("node:module").createRequire("file:///")("node:crypto").randomFillSync = fill;
  return (milliseconds) => { // a sleep
    now += milliseconds;
  };
}
