/* Messages between the jail's processes and the host; see messages.py for their form. No guest code runs at either
 * end, but what does not fit is refused all the same. */
#ifndef CLOCHE_PACKET_H
#define CLOCHE_PACKET_H

#include <stdbool.h>
#include <stddef.h>

enum { MAX_PACKET = 262144, MAX_DESCRIPTORS = 40 };

struct packet {
    size_t length;
    size_t descriptor_count;
    int descriptors[MAX_DESCRIPTORS];
    char fields[MAX_PACKET];
};

/* A message that is being written. */
struct reply {
    size_t length;
    char fields[1024];
};

/* Two connected ends; 0, or -1 with errno. */
int packet_pair(int ends[2]);

/* The next message: 1; 0 when the other end is gone; -1 with errno. Its descriptors are the caller's. */
int packet_receive(int line, struct packet *packet);

/* Whether an error number says that sending failed for want of something that others have taken (memory, or the
 * descriptors that one user may have on their way), and not because nobody listens. */
bool is_passing(int reason);

/* Sends fields as they are; 0, or -1 with errno. Waits a moment for what is passing. */
int packet_send(int line, const char *fields, size_t length, const int *descriptors, size_t count);

/* Closes the descriptors that came with it and were not taken (set to -1). */
void packet_close(struct packet *packet);

/* name=text; NULL when there is none. */
const char *packet_text(const struct packet *packet, const char *name);

/* name#12; false when there is none. */
bool packet_number(const struct packet *packet, const char *name, long long *value);

/* The same, with a value for when there is none. */
long long packet_number_or(const struct packet *packet, const char *name, long long otherwise);

/* name+item: the first item (previous: NULL), then the next ones; NULL after the last. */
const char *packet_item(const struct packet *packet, const char *name, const char *previous);

/* Adds one field ("error=%s"). One that is too long is cut, one for which there is no room is left out. */
void reply_add(struct reply *reply, const char *format, ...) __attribute__((format(printf, 2, 3)));

int reply_send(int line, const struct reply *reply, const int *descriptors, size_t count);

/* Sends what failed last, and why, under this name. */
int send_failure(int line, const char *name, long long number);

#endif
