// The wire and the alarm clock as devices: Python reads, writes and polls them like descriptors of a real system, and a
// signal ends its waiting with EINTR. While Python waits, this thread sleeps in shared memory. A device is not told how
// long a poll may take: the wire's lasts until something comes, the clock's until the time that it was set to.
import { ENDED, EVENT, LENGTH, READ, SIGNAL, WRITTEN } from "./ring.mjs";

const EINTR = 27, POLLIN = 1, POLLOUT = 4;
const PACKET = 1 << 16;
const MAJOR = 64;
const now = performance.now.bind(performance); // ours is real, whatever clock the guest is shown

export function addDevices({ FS }, control, bytes, stdout) {
  const state = new Int32Array(control), ring = new Uint8Array(bytes);
  const signal = new Uint8Array(control, SIGNAL * 4, 1);
  const pending = () => (Atomics.load(state, WRITTEN) - state[READ]) | 0;
  const readable = () => pending() > 0 || Atomics.load(state, ENDED) === 1;

  // Until `ready`, a signal, or the end of the time.
  function wait(ready, end) {
    for (;;) {
      const event = Atomics.load(state, EVENT);
      if (ready()) return;
      if (signal[0] !== 0) throw new FS.ErrnoError(EINTR);
      const left = end - now();
      if (left <= 0) return;
      Atomics.wait(state, EVENT, event, left);
    }
  }

  function write(data) {
    const size = Math.min(data.length, PACKET);
    return size === 0 ? 0 : stdout.writeSync(data.subarray(0, size));
  }

  const open = (stream) => {
    stream.seekable = false;
  };
  const close = () => {};
  const wire = {
    open,
    close,
    poll() {
      wait(readable, Infinity);
      return POLLIN | POLLOUT;
    },
    read(_stream, buffer, offset, length) {
      for (;;) {
        const event = Atomics.load(state, EVENT);
        if (readable()) break;
        Atomics.wait(state, EVENT, event);
      }
      const at = state[READ] & (LENGTH - 1);
      const size = Math.min(pending(), length, LENGTH - at);
      buffer.set(ring.subarray(at, at + size), offset);
      Atomics.store(state, READ, (state[READ] + size) | 0);
      Atomics.notify(state, READ);
      return size;
    },
    write: (_stream, buffer, offset, length) =>
      write(new Uint8Array(buffer.buffer, buffer.byteOffset + offset, length)),
  };
  let alarm = 0, pass = () => {};
  const clock = {
    open,
    close,
    poll() {
      wait(() => false, alarm);
      return POLLIN;
    },
  };
  for (const [index, [path, operations]] of [["/dev/wire", wire], ["/dev/clock", clock]].entries()) {
    const device = FS.makedev(MAJOR, index);
    FS.registerDevice(device, operations);
    FS.mkdev(path, 0o600, device);
  }
  return {
    writeAll(data) {
      for (let done = 0; done < data.length;) done += write(data.subarray(done));
    },
    setAlarm(milliseconds) {
      pass(milliseconds);
      alarm = now() + milliseconds;
    },
    isIdle: () => !readable(),
    // Sleeps move another clock too.
    moveWith(move) {
      pass = move;
    },
  };
}
