#define _GNU_SOURCE
#include "processes.h"

#include "mounts.h"
#include "step.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* TRACKED bounds how many copies of one worker may live; ROUNDS the passes over the process table before a seat that
 * breeds faster than it dies is given up. */
enum { TRACKED = 1024, REMEMBERED = 256, ROUNDS = 500, START_TIME = 19 };

static int listing = -1; /* a /proc that nobody else can reach */

static struct {
    pid_t pid;
    int end;
} tracked[TRACKED];
static size_t tracked_count;

static struct {
    pid_t pid;
    int code;
} ended[REMEMBERED]; /* those that ended before anybody asked; the oldest is forgotten first */
static size_t ended_next;

int look_at_processes(void)
{
    static const char *const options[][2] = {{"subset", "pid"}, {NULL, NULL}};
    tracked_count = ended_next = 0;
    memset(ended, 0, sizeof ended);
    listing = detached_file_system("proc", options);
    return listing < 0 ? -1 : 0;
}

/* Reads a small file whole, as text; false when it cannot be. */
static bool read_text(int folder, const char *name, char *text, size_t room)
{
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    size_t length = 0;
    ssize_t got;
    while (length < room - 1 && (got = read(file, text + length, room - 1 - length)) > 0)
        length += (size_t)got;
    close(file);
    text[length] = '\0';
    return length > 0;
}

pid_t process_of(int handle)
{
    char name[64], text[1024];
    (void)snprintf(name, sizeof name, "self/fdinfo/%d", handle);
    if (!read_text(listing, name, text, sizeof text))
        return -1;
    const char *line = strstr(text, "Pid:");
    return line == NULL ? -1 : (pid_t)strtol(line + strlen("Pid:"), NULL, 10);
}

/* -- ends -------------------------------------------------------------------------------------------------------- */

static void tell(int end, int code)
{
    char text[16];
    int length = snprintf(text, sizeof text, "%d", code);
    (void)!write(end, text, (size_t)length); /* who asked may be gone */
    close(end);
}

static void note_end(pid_t pid, int code)
{
    for (size_t i = 0; i < tracked_count; i++) {
        if (tracked[i].pid == pid) {
            tell(tracked[i].end, code);
            tracked[i] = tracked[--tracked_count];
            return;
        }
    }
    ended[ended_next].pid = pid;
    ended[ended_next].code = code;
    ended_next = (ended_next + 1) % REMEMBERED;
}

void reap_processes(void)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        note_end(pid, WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
}

void track_process(pid_t pid, int end)
{
    reap_processes();
    for (size_t i = 0; i < REMEMBERED; i++) {
        if (pid > 0 && ended[i].pid == pid) {
            tell(end, ended[i].code);
            ended[i].pid = 0;
            return;
        }
    }
    if (pid <= 0)
        tell(end, -SIGKILL);
    else if (tracked_count == TRACKED)
        close(end); /* which says that nothing is known of its end */
    else {
        tracked[tracked_count].pid = pid;
        tracked[tracked_count++].end = end;
    }
}

/* -- ending ------------------------------------------------------------------------------------------------------ */

/* Whether it has one number only: not in a namespace below this one. */
static bool is_direct(const char *status)
{
    const char *numbers = strstr(status, "\nNSpid:");
    if (numbers == NULL)
        return false;
    numbers += strlen("\nNSpid:");
    numbers += strspn(numbers, " \t");
    numbers += strspn(numbers, "0123456789");
    numbers += strspn(numbers, " \t");
    return *numbers == '\n';
}

/* Whether it has not ended, and began after `since`. The name in the file is the guest's, and may be anything. */
static bool is_running(const char *stat, long long since)
{
    const char *field = strrchr(stat, ')');
    if (field == NULL)
        return false;
    field += 1 + strspn(field + 1, " ");
    if (*field == 'Z' || *field == 'X')
        return false;
    for (int i = 0; i < START_TIME && field != NULL; i++)
        field = (field = strchr(field, ' ')) == NULL ? NULL : field + 1;
    return field != NULL && strtoll(field, NULL, 10) >= since;
}

static bool lives_here(pid_t pid, long long since)
{
    char name[32], text[8192];
    (void)snprintf(name, sizeof name, "%d/status", pid);
    if (!read_text(listing, name, text, sizeof text) || !is_direct(text))
        return false;
    (void)snprintf(name, sizeof name, "%d/stat", pid);
    return read_text(listing, name, text, sizeof text) && is_running(text, since);
}

static bool is_among(pid_t pid, const pid_t *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == pid)
            return true;
    return false;
}

/* One pass over the process table; whether anybody was found. */
static bool end_those_found(DIR *table, const pid_t *spared, size_t count, long long since)
{
    bool found = false;
    struct dirent *entry;
    while ((entry = readdir(table)) != NULL) {
        char *rest;
        long pid = strtol(entry->d_name, &rest, 10);
        if (*rest != '\0' || pid <= 1 || is_among((pid_t)pid, spared, count) || !lives_here((pid_t)pid, since))
            continue;
        found = true;
        kill((pid_t)pid, SIGKILL);
    }
    return found;
}

void end_processes(const pid_t *spared, size_t count, long long since)
{
    for (int round = 0; round < ROUNDS; round++) {
        int place = openat(listing, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *table = place < 0 ? NULL : fdopendir(place);
        if (table == NULL) {
            if (place >= 0)
                close(place);
            return;
        }
        bool found = end_those_found(table, spared, count, since);
        closedir(table);
        if (!found)
            return;
        reap_processes();
    }
}
