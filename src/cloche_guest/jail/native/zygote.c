#define _GNU_SOURCE
#include "zygote.h"

#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 16 };

/* All of `file`, in `memory`. */
static int copy_all(int file, int memory)
{
    ssize_t copied;
    do
        copied = sendfile(memory, file, NULL, 1 << 24);
    while (copied > 0 || (copied < 0 && errno == EINTR));
    return (int)copied;
}

/* A copy in memory of a file that the configuration names. The original can perhaps not be opened again by the user
 * whom the zygote runs as, and lies outside of the view. */
static int load_named(const struct packet *configuration, const char *name)
{
    const char *path = packet_text(configuration, name);
    if (path == NULL) {
        errno = EINVAL;
        return failed(name);
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return failed_at("open", path);
    int memory = memfd_create(name, MFD_CLOEXEC);
    if (memory < 0)
        failed("memfd_create");
    else if (copy_all(file, memory) < 0) {
        int reason = errno;
        close(memory);
        errno = reason;
        memory = failed_at("sendfile", path);
    }
    int reason = errno;
    close(file);
    errno = reason;
    return memory;
}

int load_zygote_files(const struct packet *configuration, struct zygote_files *files)
{
    files->guest = load_named(configuration, "guest");
    files->library = files->guest < 0 ? -1 : load_named(configuration, "library");
    return files->library < 0 ? -1 : 0;
}

/* A program that is started by somebody other than root has no capabilities, but for those of the ambient set. */
static int keep_capabilities_over_exec(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &head, held) < 0)
        return failed("capget");
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        held[i].inheritable = held[i].permitted;
    if (syscall(SYS_capset, &head, held) < 0)
        return failed("capset");
    for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        if (held[capability / 32].permitted >> capability % 32 & 1 &&
            prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) < 0)
            return failed("prctl CAP_AMBIENT");
    return 0;
}

static int stay_open(const int *descriptors, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fcntl(descriptors[i], F_SETFD, 0) < 0)
            return failed("fcntl");
    return 0;
}

/* Python, its options, our compiled guest by descriptor, and the numbers of what it is given. */
static int execute(const struct packet *configuration, const struct zygote_files *files, int line, int host)
{
    char *arguments[MAX_ARGUMENTS + 4];
    char guest[32], numbers[64];
    char *const nothing[] = {NULL};
    size_t count = 0;
    const char *item = NULL;
    while ((item = packet_item(configuration, "command", item)) != NULL && count < MAX_ARGUMENTS)
        arguments[count++] = (char *)item; /* execve changes none of them */
    if (count == 0 || item != NULL) {
        errno = EINVAL;
        return failed("command");
    }
    (void)snprintf(guest, sizeof guest, "/proc/self/fd/%d", files->guest);
    (void)snprintf(numbers, sizeof numbers, "%d,%d,%d,%d", line, host, files->library, files->guest);
    arguments[count++] = guest;
    arguments[count++] = (char *)"--zygote";
    arguments[count++] = numbers;
    arguments[count] = NULL;
    execve(arguments[0], arguments, nothing);
    return failed_at("execve", arguments[0]);
}

static _Noreturn void become_zygote(const struct packet *configuration, const struct zygote_files *files, int line,
                                    int host)
{
    const int kept[] = {line, host, files->library, files->guest};
    if (setsid() < 0)
        failed("setsid");
    else if (keep_capabilities_over_exec() == 0 && stay_open(kept, sizeof kept / sizeof *kept) == 0)
        execute(configuration, files, line, host);
    send_failure(host, NULL, 0);
    _exit(1);
}

int start_zygote(const struct packet *configuration, struct zygote_files *files, int host)
{
    int line[2];
    if (packet_pair(line) < 0)
        return failed("socketpair");
    if (packet_send(line[0], configuration->fields, configuration->length, NULL, 0) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        become_zygote(configuration, files, line[1], host);
    if (pid < 0)
        return failed("fork");
    close(line[1]);
    close(files->guest);
    close(files->library);
    return line[0];
}
