#define _GNU_SOURCE
#include "confine.h"

#include "mounts.h"
#include "places.h"
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Headers of older systems lack these; the numbers are the same on every architecture. */
#define CALL_CLOSE_RANGE 436
#define CALL_LANDLOCK_CREATE_RULESET 444
#define CALL_LANDLOCK_ADD_RULE 445
#define CALL_LANDLOCK_RESTRICT_SELF 446

#define LANDLOCK_CREATE_RULESET_VERSION_FLAG 1
#define LANDLOCK_PATH_BENEATH 1
#define LANDLOCK_MAKE_BLOCK (UINT64_C(1) << 11)
#define LANDLOCK_REFER (UINT64_C(1) << 13)

/* In the register after a Landlock call's own: the filter lets only such calls through (see filter.py), so that programs
 * which confine themselves do not. */
#define PASS 0x636c6f63L

enum { FIRST_LINE = 3, OUT_OF_THE_WAY = 100, HANDED_OVER = 2, FAMILY_SIGNALS = 1024 };

struct landlock_ruleset {
    uint64_t files;
    uint64_t network;
    uint64_t scope;
};

struct landlock_path_rule {
    uint64_t rights;
    int32_t folder;
} __attribute__((packed));

int arrange_descriptors(const int lines[LINES])
{
    int high[LINES];
    for (int i = 0; i < LINES; i++) {
        high[i] = fcntl(lines[i], F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
        if (high[i] < 0)
            return failed("dup");
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return failed("/dev/null");
    if (dup2(null, 0) < 0 || dup2(high[OUT], 1) < 0 || dup2(high[ERR], 2) < 0)
        return failed("dup2");
    for (int i = 0; i < LINES; i++)
        if (dup2(high[i], FIRST_LINE + i) < 0)
            return failed("dup2");
    if (syscall(CALL_CLOSE_RANGE, FIRST_LINE + LINES, ~0U, 0) < 0)
        return failed("close_range");
    return 0;
}

/* The kernel remembers this limit with a user namespace and holds all to it that is counted in it and below: a session
 * together with its branches. Each of them has a smaller one for itself. */
static int limit_family_signals(void)
{
    struct rlimit both;
    if (getrlimit(RLIMIT_SIGPENDING, &both) < 0)
        return failed("getrlimit");
    if (both.rlim_max <= FAMILY_SIGNALS)
        return 0;
    both.rlim_cur = both.rlim_max = FAMILY_SIGNALS;
    return setrlimit(RLIMIT_SIGPENDING, &both) < 0 ? failed("setrlimit") : 0;
}

/* After the mounts: so the guest has no power over them, whatever it regains in its own namespace. */
static int own_user_namespace(uid_t user)
{
    if (become_user(user) < 0 || limit_family_signals() < 0)
        return -1;
    if (unshare(CLONE_NEWUSER) < 0)
        return failed("unshare");
    return write_user_maps("self", user, INSIDE, 1);
}

static uint64_t file_rights(long version)
{
    int count = version < 2 ? 13 : version < 3 ? 14 : version < 5 ? 15 : 16;
    return (UINT64_C(1) << count) - 1;
}

/* On the root folder and not on the mounts: a rule sits on an inode, and a branch has mounts of its own. */
static int allow_view(int ruleset, uint64_t rights)
{
    struct landlock_path_rule rule = {.rights = rights, .folder = open("/", O_PATH | O_CLOEXEC)};
    if (rule.folder < 0)
        return failed("/");
    long added = syscall(CALL_LANDLOCK_ADD_RULE, ruleset, LANDLOCK_PATH_BENEATH, &rule, 0, PASS);
    int reason = errno;
    close(rule.folder);
    errno = reason;
    return added < 0 ? failed("landlock_add_rule") : 0;
}

/* No TCP, and no signals or abstract sockets to the outside, where the kernel knows of these. */
static int landlock_self(void)
{
    long version = syscall(CALL_LANDLOCK_CREATE_RULESET, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION_FLAG);
    if (version < 1)
        return failed("landlock");
    struct landlock_ruleset wanted = {.files = file_rights(version), .network = 3, .scope = 3};
    size_t known = version < 4 ? 1 : version < 6 ? 2 : 3;
    long ruleset = -1;
    errno = E2BIG; /* said of fields that it does not know, whatever its version */
    for (; ruleset < 0 && known > 0 && errno == E2BIG; known--)
        ruleset = syscall(CALL_LANDLOCK_CREATE_RULESET, &wanted, known * sizeof(uint64_t), 0);
    if (ruleset < 0)
        return failed("landlock_create_ruleset");
    if (allow_view((int)ruleset, wanted.files) < 0)
        return -1;
    if (syscall(CALL_LANDLOCK_RESTRICT_SELF, (int)ruleset, 0) < 0)
        return failed("landlock_restrict_self");
    close((int)ruleset);
    return 0;
}

/* Of what Landlock can forbid, that which changes nothing when it is handled: renaming from folder to folder, allowed
 * again by a rule (any layer that does not mention it forbids it), or on the oldest kernels making devices, which nobody
 * here can do. */
int stand_apart(void)
{
    long version = syscall(CALL_LANDLOCK_CREATE_RULESET, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION_FLAG, PASS);
    if (version < 1)
        return failed("landlock");
    const uint64_t handled = version < 2 ? LANDLOCK_MAKE_BLOCK : LANDLOCK_REFER;
    long ruleset = syscall(CALL_LANDLOCK_CREATE_RULESET, &handled, sizeof handled, 0, PASS);
    if (ruleset < 0)
        return failed("landlock_create_ruleset");
    int result = version < 2 ? 0 : allow_view((int)ruleset, handled);
    if (result == 0 && syscall(CALL_LANDLOCK_RESTRICT_SELF, (int)ruleset, 0, PASS) < 0)
        result = failed("landlock_restrict_self");
    int reason = errno;
    close((int)ruleset);
    errno = reason;
    return result;
}

static int set_limits(const struct confinement *how)
{
    for (size_t i = 0; i < how->limit_count; i++) {
        int resource = (int)how->limits[i].resource;
        rlim_t amount = how->limits[i].amount;
        struct rlimit both;
        if (getrlimit(resource, &both) < 0)
            return failed("getrlimit");
        if (amount < both.rlim_max)
            both.rlim_max = amount;
        if (resource != RLIMIT_STACK || both.rlim_cur > both.rlim_max) /* a stack is as large as it may grow */
            both.rlim_cur = both.rlim_max;
        if (setrlimit(resource, &both) < 0)
            return failed("setrlimit");
    }
    return 0;
}

int clear_capabilities(long key)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
    memset(none, 0, sizeof none);
    if (syscall(SYS_capset, &head, none, key) < 0)
        return failed("capset");
    return 0;
}

static int drop_capabilities(void)
{
    for (unsigned long capability = 0;; capability++) {
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0)
            continue;
        if (errno != EINVAL) /* EINVAL: one more than this kernel has */
            return failed("prctl CAPBSET_DROP");
        break;
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return failed("prctl CAP_AMBIENT");
    return clear_capabilities(0);
}

/* To our PID 1: who decides about system calls, and below which user namespace those of branches are made. */
static int hand_over(int listener, int users)
{
    static char said[] = "listener#1";
    struct iovec text = {.iov_base = said, .iov_len = sizeof said};
    const int handles[HANDED_OVER] = {listener, users};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof handles)];
    } rights;
    memset(&rights, 0, sizeof rights);
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1};
    message.msg_control = rights.room;
    message.msg_controllen = sizeof rights.room;
    rights.head.cmsg_level = SOL_SOCKET;
    rights.head.cmsg_type = SCM_RIGHTS;
    rights.head.cmsg_len = CMSG_LEN(sizeof handles);
    memcpy(CMSG_DATA(&rights.head), handles, sizeof handles);
    if (sendmsg(FIRST_LINE + INNER, &message, MSG_NOSIGNAL) < 0)
        return failed("sendmsg");
    close(listener);
    close(users);
    close(FIRST_LINE + INNER);
    return 0;
}

int hide_mounts(long key)
{
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || here < 0)
        return failed("/");
    if (syscall(SYS_unshare, CLONE_NEWNS, 0, key) < 0)
        return failed("unshare");
    if (fchdir(root) < 0 || syscall(SYS_chroot, ".", 0, key) < 0 || fchdir(here) < 0)
        return failed("chroot");
    close(root);
    close(here);
    return 0;
}

int confine(const struct confinement *how)
{
    if (!how->below && own_user_namespace((uid_t)how->user) < 0)
        return -1;
    if (hide_mounts(0) < 0)
        return -1;
    int users = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC); /* while we may still look at ourselves */
    if (users < 0)
        return failed("/proc/self/ns/user");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return failed("prctl NO_NEW_PRIVS");
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return failed("prctl DUMPABLE");
    if (how->landlock && landlock_self() < 0)
        return -1;
    if (set_limits(how) < 0 || drop_capabilities() < 0)
        return -1;
    long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &how->filter);
    if (listener < 0)
        return failed("seccomp");
    if (hand_over((int)listener, users) < 0)
        return -1;
    if (how->refusals.len > 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &how->refusals) < 0)
        return failed("seccomp");
    return 0;
}
