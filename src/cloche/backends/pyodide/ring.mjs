// Where things lie in the memory that the interpreter and the reader share.

export const LENGTH = 1 << 20; // of the ring; a power of two
// Words of the control block:
export const EVENT = 0; // counts up whenever there is something to look at
export const WRITTEN = 1; // bytes put into the ring
export const READ = 2; // bytes taken out of it
export const ENDED = 3; // the host has closed the wire
export const SIGNAL = 4; // its first byte is what the interpreter looks at while it computes
export const WORDS = 5;
