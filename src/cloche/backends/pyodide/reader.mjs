// Owns the wire's input: reads packets from descriptor 0 and hands their bytes over through shared memory.
//
// The first byte of a packet says what it is: 0 for bytes of the wire, anything else is the number of a signal. A
// signal goes to the byte that the interpreter looks at while it computes, and wakes it when it waits.
import { ENDED, EVENT, LENGTH, READ, SIGNAL, WRITTEN } from "./ring.mjs";


self.onmessage = ({ data: { control, bytes } }) => {
  self.onmessage = null;
  const state = new Int32Array(control);
  const signal = new Uint8Array(control, SIGNAL * 4, 1);
  const ring = new Uint8Array(bytes);
  const packet = new Uint8Array(1 << 18);

  function tell() {
    Atomics.add(state, EVENT, 1);
    Atomics.notify(state, EVENT);
  }

  function put(data) {
    let done = 0;
    while (done < data.length) {
      const written = state[WRITTEN], read = Atomics.load(state, READ);
      const room = LENGTH - ((written - read) | 0);
      if (room === 0) {
        Atomics.wait(state, READ, read);
        continue;
      }
      const at = written & (LENGTH - 1);
      const size = Math.min(room, data.length - done, LENGTH - at);
      ring.set(data.subarray(done, done + size), at);
      done += size;
      Atomics.store(state, WRITTEN, (written + size) | 0);
      tell();
    }
  }

  for (;;) {
    const size = Deno.stdin.readSync(packet);
    if (size === null) break;
    if (packet[0] === 0) {
      put(packet.subarray(1, size));
    } else {
      signal[0] = packet[0];
      tell();
    }
  }
  Atomics.store(state, ENDED, 1);
  tell();
};
