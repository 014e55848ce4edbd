#define _GNU_SOURCE
#include "reaper.h"

#include "mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TEXT = 65536, MOST_PATHS = 256, DEEPEST = 128, TRIES = 40, PAUSE = 25 * 1000 * 1000 /* nanoseconds */ };

static const char *wanted[MOST_PATHS];
static size_t wanted_count;

static void add(const char *path)
{
    if (*path == '/' && wanted_count < MOST_PATHS) /* what is too much is left to the sweep of the next start */
        wanted[wanted_count++] = path;
}

/* Reads until the host is gone. */
static void hear(void)
{
    static char text[MOST_TEXT];
    char waste[4096];
    size_t length = 0;
    for (;;) {
        bool full = length == sizeof text - 1;
        ssize_t got = read(0, full ? waste : text + length, full ? sizeof waste : sizeof text - 1 - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        if (!full)
            length += (size_t)got;
    }
    text[length] = '\0';
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        add(line);
}

/* Ends what runs in a group. */
static void end_members(int group)
{
    int list = openat(group, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    FILE *members = list < 0 ? NULL : fdopen(list, "r");
    if (members == NULL) {
        if (list >= 0)
            close(list);
        return;
    }
    long pid;
    while (fscanf(members, "%ld", &pid) == 1)
        if (pid > 1) /* 0: somebody whom we cannot name */
            kill((pid_t)pid, SIGKILL);
    fclose(members);
}

static bool is_group(const char *path)
{
    char name[PATH_MAX];
    struct stat status;
    int length = snprintf(name, sizeof name, "%s/cgroup.procs", path);
    return length > 0 && (size_t)length < sizeof name && lstat(name, &status) == 0 && S_ISREG(status.st_mode);
}

/* Removes a folder and all that is in it, by descriptor: the names in it were a guest's, and links are not followed.
 * What lies too deep is left to the sweep of the next start. */
static void remove_tree(int parent, const char *name, int depth)
{
    int place = depth > DEEPEST ? -1 : openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = place < 0 ? NULL : fdopendir(place);
    if (folder == NULL) {
        if (place >= 0)
            close(place);
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(place, entry->d_name, 0) < 0 && errno == EISDIR)
            remove_tree(place, entry->d_name, depth + 1);
    }
    closedir(folder);
    (void)unlinkat(parent, name, AT_REMOVEDIR);
}

/* Removes the groups in a host's folder, and it. Anything but a group is left alone, and so is then the folder. */
static void remove_groups(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return;
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_type != DT_DIR || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int group = openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (group < 0)
            continue;
        end_members(group);
        close(group);
        (void)unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR); /* what ends slowly is there at the next try */
    }
    closedir(folder);
    (void)rmdir(path);
}

/* One try at everything; whether something is left. */
static bool remove_all(void)
{
    bool left = false;
    struct stat status;
    for (size_t i = 0; i < wanted_count; i++) {
        if (lstat(wanted[i], &status) < 0)
            continue;
        if (!S_ISDIR(status.st_mode))
            (void)unlink(wanted[i]);
        else if (is_group(wanted[i]))
            remove_groups(wanted[i]);
        else
            remove_tree(AT_FDCWD, wanted[i], 0);
        left = left || lstat(wanted[i], &status) == 0;
    }
    return left;
}

int reap(int count, char **paths)
{
    static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM};
    const struct timespec pause = {.tv_sec = 0, .tv_nsec = PAUSE};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (signal(ignored[i], SIG_IGN) == SIG_ERR)
            return 1;
    for (int i = 0; i < count; i++)
        add(paths[i]);
    hear();
    for (int i = 0; i < TRIES; i++) {
        if (!remove_all())
            return 0;
        (void)nanosleep(&pause, NULL);
    }
    return 1;
}

int join(int count, char **paths)
{
    for (int i = 0; i < count; i++)
        if (write_file(paths[i], "0", 0) < 0)
            return 1;
    return 0;
}
