#define _GNU_SOURCE
#include "heap.h"

#include "step.h"

#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE_PAGE ((size_t)2 << 20)
#define REGION ((size_t)1 << 30)
#define MOST_ARENAS (REGION / ((size_t)256 << 10))

#define GATHERED_BLOCK (64 << 20) /* up to this size a block is part of the C heap while it is gathered, */
#define LATER_BLOCK (32 << 20)    /* and later: the most that the C library would learn to allow by itself */

struct arena_allocator {
    void *context;
    void *(*take)(void *context, size_t size);
    void (*give_back)(void *context, void *place, size_t size);
};

extern void PyObject_SetArenaAllocator(struct arena_allocator *allocator);

/* The region is [start, limit); up to `open` it can be written, up to `next` it is in use or on the list. Memory that
 * cannot be written does not count against RLIMIT_DATA, which sessions have. */
static char *start, *next, *open_until, *limit;
static size_t arena_size;
static void *unused[MOST_ARENAS];
static size_t unused_count;

static void *map_memory(size_t size, int protection)
{
    void *place = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return place == MAP_FAILED ? NULL : place;
}

/* Called with the interpreter's lock held, as all of these. Other sizes than that of an arena (3.11 keeps stacks of
 * frames here) are served one by one: a place is only ever used again for the same size. */
static void *take_arena(void *context, size_t size)
{
    (void)context;
    if (size == arena_size && unused_count > 0)
        return unused[--unused_count];
    if (size != arena_size || (size_t)(limit - next) < size)
        return map_memory(size, PROT_READ | PROT_WRITE);
    if ((size_t)(open_until - next) < size) {
        if (mprotect(open_until, LARGE_PAGE, PROT_READ | PROT_WRITE) < 0)
            return NULL;
        open_until += LARGE_PAGE;
    }
    char *place = next;
    next += size;
    return place;
}

static void give_arena_back(void *context, void *place, size_t size)
{
    (void)context;
    char *where = place;
    if (where < start || where >= next) {
        munmap(place, size);
        return;
    }
    madvise(place, size, MADV_DONTNEED); /* if that fails the memory is merely not free for others */
    unused[unused_count++] = place;      /* there is room: no arena is smaller than 256 kB */
}

int gather_heap(size_t arena)
{
    static struct arena_allocator allocator = {.take = take_arena, .give_back = give_arena_back};
    if (start != NULL || arena < ((size_t)256 << 10) || LARGE_PAGE % arena != 0)
        return failed("arena size");
    char *place = map_memory(REGION + LARGE_PAGE, PROT_NONE);
    if (place == NULL)
        return failed("mmap");
    start = next = open_until = (char *)(((uintptr_t)place + LARGE_PAGE - 1) & ~(uintptr_t)(LARGE_PAGE - 1));
    limit = start + REGION;
    arena_size = arena;
    PyObject_SetArenaAllocator(&allocator);
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, GATHERED_BLOCK);
    mallopt(M_TRIM_THRESHOLD, 2 * GATHERED_BLOCK);
    mallopt(M_TOP_PAD, (int)LARGE_PAGE);
#endif
    return 0;
}

int settle_heap(void)
{
    if (start == NULL)
        return failed("not gathered");
    munmap(open_until, (size_t)(limit - open_until));
    limit = open_until;
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, LATER_BLOCK);
    mallopt(M_TRIM_THRESHOLD, 2 * LATER_BLOCK);
#endif
    return 0;
}
