// The workspace: it lives in the memory of this process, and the host keeps a copy. What a cell did to it is told to
// the host before the cell's reply; what the host did comes in as requests (see cloche_guest.pyodide).

const EFBIG = 22;
const PIECE = 3 << 16; // a multiple of three: each piece is whole base64
const MOST_ENTRIES = 20_000, MOST_DEPTH = 64;

export function followFiles({ FS, _module: { MEMFS } }, root, emit) {
  const known = new Map(); // path -> what the host has: the node's number, size and time, or the target of a link
  const written = new Set(); // nodes; two writes within one tick of the clock leave the same time
  let touched = false;
  let limit = Infinity;
  FS.mkdirTree(root);

  function refuse(node) {
    if (FS.getPath(node).startsWith(`${root}/`)) throw new FS.ErrnoError(EFBIG);
  }

  // -- what is done to files ------------------------------------------------------------------
  const { dir, file } = MEMFS.ops_table;
  for (const name of ["mknod", "rename", "unlink", "rmdir", "symlink"]) {
    const act = dir.node[name];
    dir.node[name] = (...given) => {
      touched = true;
      return act(...given);
    };
  }
  const { write } = file.stream, { setattr } = file.node;
  file.stream.write = (stream, buffer, offset, length, position, own) => {
    if (position + length > limit) refuse(stream.node);
    touched = true;
    written.add(stream.node.id);
    return write(stream, buffer, offset, length, position, own);
  };
  file.node.setattr = (node, attributes) => {
    if (attributes.size > limit) refuse(node);
    touched = true;
    if (attributes.size !== undefined) written.add(node.id);
    return setattr(node, attributes);
  };

  // -- what the host is told -------------------------------------------------------------------
  const tell = (params) => emit({ jsonrpc: "2.0", method: "file", params });

  function mark(node) {
    if (FS.isFile(node.mode)) return `f ${node.id} ${node.usedBytes}`;
    if (FS.isLink(node.mode)) return `l ${node.link}`;
    return FS.isDir(node.mode) ? "d" : null;
  }

  function sendNode(path, node) {
    if (FS.isDir(node.mode)) return tell({ path, folder: true });
    if (FS.isLink(node.mode)) return tell({ path, link: node.link });
    const { buffer, byteOffset } = node.contents ?? new Uint8Array();
    const contents = new Uint8Array(buffer, byteOffset, node.usedBytes); // it may be signed
    let at = 0;
    do {
      const piece = contents.subarray(at, at + PIECE);
      at += piece.length;
      tell({ path, data: piece.toBase64(), more: at < contents.length });
    } while (at < contents.length);
  }

  // All there is, folders before what is in them; null where the root is no folder any more.
  function walk() {
    const found = new Map();
    let top;
    try {
      top = FS.lookupPath(root).node;
    } catch {
      return found;
    }
    const pending = [["", top, 0]];
    while (pending.length) {
      const [prefix, folder, depth] = pending.pop();
      if (!FS.isDir(folder.mode)) continue;
      for (const [name, node] of Object.entries(folder.contents)) {
        if (found.size >= MOST_ENTRIES) return found;
        const path = prefix + name;
        if (mark(node) === null) continue;
        found.set(path, node);
        if (FS.isDir(node.mode) && depth < MOST_DEPTH) pending.push([`${path}/`, node, depth + 1]);
      }
    }
    return found;
  }

  function send() {
    if (!touched) return;
    touched = false;
    const found = walk();
    for (const path of [...known.keys()].reverse()) { // what is in a folder before the folder
      const node = found.get(path);
      if (node !== undefined && mark(node)[0] === known.get(path)[0]) continue;
      known.delete(path);
      tell({ path, gone: true });
    }
    for (const [path, node] of found) {
      const now = mark(node);
      if (known.get(path) === now && !written.has(node.id)) continue;
      known.set(path, now);
      sendNode(path, node);
    }
    written.clear();
  }

  // The host has put something there, or taken it away: it need not be told.
  function note(path) {
    let node;
    try {
      node = FS.lookupPath(`${root}/${path}`, { follow: false }).node;
    } catch {
      known.delete(path);
      return;
    }
    known.set(path, mark(node));
    written.delete(node.id);
  }

  return {
    send,
    note,
    bound: (bytes) => {
      limit = bytes;
    },
  };
}
