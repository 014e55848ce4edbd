/* Python's own memory in few large pages: what a fork copies, and what an exit takes apart, is page tables. */
#ifndef CLOCHE_HEAP_H
#define CLOCHE_HEAP_H

#include <stddef.h>

/* From here on take Python's arenas (of `arena` bytes each) from one region, and keep the C heap in one piece. */
int gather_heap(size_t arena);

/* All that is to be shared is there: let later growth be ordinary. */
int settle_heap(void);

#endif
