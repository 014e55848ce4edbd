#define _GNU_SOURCE
#include "packet.h"

#include "step.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOMENT_NANOSECONDS = 2000000, MAX_MOMENTS = 50 }; /* how long to wait for what is passing */

/* Room for the descriptors of one message, aligned as the kernel wants it. */
union control {
    struct cmsghdr align;
    char room[CMSG_SPACE(MAX_DESCRIPTORS * sizeof(int))];
};

int packet_pair(int ends[2])
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static void take_descriptors(struct msghdr *head, struct packet *packet)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(head); part != NULL; part = CMSG_NXTHDR(head, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (count > MAX_DESCRIPTORS - packet->descriptor_count) /* the room is for no more than fit here */
            abort();
        memcpy(packet->descriptors + packet->descriptor_count, CMSG_DATA(part), count * sizeof(int));
        packet->descriptor_count += count;
    }
}

int packet_receive(int line, struct packet *packet)
{
    union control control;
    struct iovec text = {.iov_base = packet->fields, .iov_len = sizeof packet->fields};
    struct msghdr head = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t length;
    packet->descriptor_count = 0;
    do
        length = recvmsg(line, &head, MSG_CMSG_CLOEXEC);
    while (length < 0 && errno == EINTR);
    if (length < 0)
        return errno == ECONNRESET ? 0 : failed("recvmsg");
    packet->length = (size_t)length;
    take_descriptors(&head, packet);
    if (length == 0)
        return 0;
    if (head.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || packet->fields[length - 1] != '\0') {
        packet_close(packet);
        packet->fields[length - 1] = '\0'; /* what came can still be read: it may say whose request this was */
        errno = EMSGSIZE;
        return failed("recvmsg");
    }
    return 1;
}

bool is_passing(int reason)
{
    return reason == ETOOMANYREFS || reason == ENOBUFS || reason == ENOMEM || reason == EAGAIN;
}

int packet_send(int line, const char *fields, size_t length, const int *descriptors, size_t count)
{
    union control control;
    struct iovec text = {.iov_base = (void *)fields, .iov_len = length};
    struct msghdr head = {.msg_iov = &text, .msg_iovlen = 1};
    if (count > MAX_DESCRIPTORS) {
        errno = EMSGSIZE;
        return failed("sendmsg");
    }
    if (count > 0) {
        memset(&control, 0, sizeof control);
        head.msg_control = &control;
        head.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *part = CMSG_FIRSTHDR(&head);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(part), descriptors, count * sizeof(int));
    }
    const struct timespec moment = {.tv_nsec = MOMENT_NANOSECONDS};
    int moments = 0;
    while (sendmsg(line, &head, MSG_NOSIGNAL) < 0) {
        int reason = errno;
        if (reason == EINTR)
            continue;
        if (!is_passing(reason) || moments++ == MAX_MOMENTS) {
            errno = reason;
            return failed("sendmsg");
        }
        nanosleep(&moment, NULL);
    }
    return 0;
}

void packet_close(struct packet *packet)
{
    for (size_t i = 0; i < packet->descriptor_count; i++)
        if (packet->descriptors[i] >= 0)
            close(packet->descriptors[i]);
    packet->descriptor_count = 0;
}

/* The value of the next field of this name and kind at or after `from`. Every field ends in NUL, the last one too. */
static const char *find(const struct packet *packet, const char *from, const char *name, char sign)
{
    size_t length = strlen(name);
    const char *end = packet->fields + packet->length;
    for (const char *field = from; field < end; field += strlen(field) + 1)
        if (strncmp(field, name, length) == 0 && field[length] == sign)
            return field + length + 1;
    return NULL;
}

const char *packet_text(const struct packet *packet, const char *name)
{
    return find(packet, packet->fields, name, '=');
}

bool packet_number(const struct packet *packet, const char *name, long long *value)
{
    const char *text = find(packet, packet->fields, name, '#');
    if (text == NULL)
        return false;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0')
        return false;
    *value = number;
    return true;
}

long long packet_number_or(const struct packet *packet, const char *name, long long otherwise)
{
    long long value;
    return packet_number(packet, name, &value) ? value : otherwise;
}

const char *packet_item(const struct packet *packet, const char *name, const char *previous)
{
    const char *from = previous == NULL ? packet->fields : previous + strlen(previous) + 1;
    return find(packet, from, name, '+');
}

void reply_add(struct reply *reply, const char *format, ...)
{
    size_t room = sizeof reply->fields - reply->length;
    if (room < 2)
        return;
    va_list values;
    va_start(values, format);
    int length = vsnprintf(reply->fields + reply->length, room, format, values);
    va_end(values);
    if (length > 0)
        reply->length += ((size_t)length < room ? (size_t)length : room - 1) + 1;
}

int reply_send(int line, const struct reply *reply, const int *descriptors, size_t count)
{
    return packet_send(line, reply->fields, reply->length, descriptors, count);
}

int send_failure(int line, const char *name, long long number)
{
    struct reply reply = {.length = 0};
    int reason = errno;
    if (name != NULL)
        reply_add(&reply, "%s#%lld", name, number);
    reply_add(&reply, "error=%s: %s", failed_step(), strerror(reason));
    reply_add(&reply, "step=%s", failed_step());
    reply_add(&reply, "errno#%d", reason);
    return reply_send(line, &reply, NULL, 0);
}
