#define _GNU_SOURCE
#include "view.h"

#include "mounts.h"
#include "places.h"
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STAGE "/tmp" /* any folder that exists everywhere: what is mounted on it is seen in our namespace only */

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static const char *const SYSTEM[] = {"/usr",    "/lib",  "/lib32", "/lib64",           "/libx32",
                                     "/bin",    "/sbin", "/etc/alternatives", "/etc/fonts"};
static const char *const SYSTEM_FILES[] = {"/etc/ld.so.cache", "/etc/localtime"};
static const char *const DEVICES[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
static const char *const FOLDERS[] = {"/etc", "/proc", "/dev", WORKSPACE, PRIVATE, MOUNT_BASES};
static const char *const MADE_UP[][2] = {
    {"/etc/passwd", "root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000:user:/app:/bin/sh\n"
                    "nobody:x:65534:65534:nobody:/:/bin/false\n"},
    {"/etc/group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n"},
    {"/etc/hosts", "127.0.0.1 localhost\n"},
    {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
};
static const char *const LINKS[][2] = {
    {"/proc/self/fd", "/dev/fd"},         {TEMPORARY, "/dev/shm"},
    {"/proc/self/fd/0", "/dev/stdin"},    {"/proc/self/fd/1", "/dev/stdout"},
    {"/proc/self/fd/2", "/dev/stderr"},
};

static bool is_link(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

static bool exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

static bool lies_in(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

/* `path` as it is on the stage. The result is good until the next call. */
static const char *staged(const char *path)
{
    static char place[PATH_MAX];
    int length = snprintf(place, sizeof place, STAGE "%s", path);
    return length > 0 && (size_t)length < sizeof place ? place : NULL;
}

/* -- which trees ------------------------------------------------------------------------------------------------- */

static int open_tree_at(struct trees *trees, const char *path)
{
    int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0)
        return errno == ENOENT ? 0 : failed_at("open", path);
    if (trees->count == MAX_TREES) {
        close(place);
        errno = E2BIG;
        return failed("trees");
    }
    trees->list[trees->count++] = (struct tree){.path = path, .place = place};
    return 0;
}

static int by_path(const void *one, const void *other)
{
    return strcmp(((const struct tree *)one)->path, ((const struct tree *)other)->path);
}

/* Trees that lie in others are part of them already. */
static void drop_nested(struct trees *trees)
{
    size_t kept = 0;
    qsort(trees->list, trees->count, sizeof *trees->list, by_path);
    for (size_t i = 0; i < trees->count; i++) {
        bool nested = false;
        for (size_t j = 0; j < kept && !nested; j++)
            nested = lies_in(trees->list[i].path, trees->list[j].path);
        if (nested)
            close(trees->list[i].place);
        else
            trees->list[kept++] = trees->list[i];
    }
    trees->count = kept;
}

int open_trees(const struct packet *configuration, struct trees *trees)
{
    trees->count = 0;
    for (size_t i = 0; i < LENGTH(SYSTEM); i++)
        if (!is_link(SYSTEM[i]) && open_tree_at(trees, SYSTEM[i]) < 0) /* a link is made again as one */
            return -1;
    for (size_t i = 0; i < LENGTH(SYSTEM_FILES); i++)
        if (open_tree_at(trees, SYSTEM_FILES[i]) < 0)
            return -1;
    const char *path = NULL;
    while ((path = packet_item(configuration, "trees", path)) != NULL)
        if (open_tree_at(trees, path) < 0)
            return -1;
    drop_nested(trees);
    return 0;
}

/* -- the view ---------------------------------------------------------------------------------------------------- */

/* Something to mount on: a folder, or an empty file. */
static int make_mount_point(int place, const char *target)
{
    struct stat status;
    if (fstat(place, &status) < 0)
        return failed_at("stat", target);
    if (S_ISDIR(status.st_mode))
        return make_folders(target, 0755);
    char folder[PATH_MAX];
    const char *slash = strrchr(target, '/');
    size_t length = (size_t)(slash - target);
    if (length >= sizeof folder) {
        errno = ENAMETOOLONG;
        return failed_at("mkdir", target);
    }
    memcpy(folder, target, length);
    folder[length] = '\0';
    if (make_folders(folder, 0755) < 0)
        return -1;
    return write_file(target, "", O_CREAT);
}

/* Takes `place` over. */
static int place_tree(const char *path, int place, uint64_t attributes, bool recursive)
{
    const char *target = staged(path);
    if (target == NULL) {
        errno = ENAMETOOLONG;
        return failed_at("stage", path);
    }
    if (make_mount_point(place, target) < 0)
        return -1;
    int tree = clone_tree(place, recursive);
    if (tree < 0 || set_tree_attributes(tree, attributes, recursive, 0) < 0 || attach_tree(tree, target) < 0)
        return -1;
    close(tree);
    close(place);
    return 0;
}

static int place_trees(struct trees *trees, const int *devices)
{
    for (size_t i = 0; i < trees->count; i++) {
        struct tree *tree = &trees->list[i];
        if (place_tree(tree->path, tree->place, TREE_RDONLY | TREE_NOSUID | TREE_NODEV, true) < 0)
            return -1;
        tree->place = -1;
    }
    for (size_t i = 0; i < LENGTH(DEVICES); i++)
        if (place_tree(DEVICES[i], devices[i], TREE_NOSUID | TREE_NOEXEC, false) < 0)
            return -1;
    return 0;
}

static int make_link(const char *target, const char *path)
{
    if (exists(staged(path)))
        return 0;
    return symlink(target, staged(path)) < 0 ? failed_at("symlink", path) : 0;
}

/* Links of the system (/bin on many), as they are outside. Read before the stage covers them. */
struct system_links {
    size_t count;
    const char *paths[LENGTH(SYSTEM)];
    char targets[LENGTH(SYSTEM)][256];
};

static void read_links(struct system_links *links)
{
    links->count = 0;
    for (size_t i = 0; i < LENGTH(SYSTEM); i++) {
        char *target = links->targets[links->count];
        ssize_t length = readlink(SYSTEM[i], target, sizeof *links->targets - 1);
        if (length <= 0 || !is_link(SYSTEM[i]))
            continue;
        target[length] = '\0';
        links->paths[links->count++] = SYSTEM[i];
    }
}

static int make_small_things(const struct system_links *links)
{
    for (size_t i = 0; i < links->count; i++)
        if (make_link(links->targets[i], links->paths[i]) < 0)
            return -1;
    for (size_t i = 0; i < LENGTH(FOLDERS); i++)
        if (make_folders(staged(FOLDERS[i]), 0755) < 0)
            return -1;
    for (size_t i = 0; i < LENGTH(MADE_UP); i++)
        if (write_file(staged(MADE_UP[i][0]), MADE_UP[i][1], O_CREAT) < 0)
            return -1;
    for (size_t i = 0; i < LENGTH(LINKS); i++)
        if (make_link(LINKS[i][0], LINKS[i][1]) < 0)
            return -1;
    return make_link(TEMPORARY, "/tmp"); /* unless an interpreter lies there */
}

static int furnish_private(const char *place, const char *home, const char *temporary, const char *quota, uid_t user)
{
    if (mount_new("tmpfs", place, MS_NOSUID | MS_NODEV, quota) < 0)
        return -1;
    if (mkdir(home, 0700) < 0 || mkdir(temporary, 0700) < 0)
        return failed_at("mkdir", place);
    if (user != INSIDE && (chown(home, user, INSIDE) < 0 || chown(temporary, user, INSIDE) < 0))
        return failed_at("chown", place);
    return 0;
}

static int enter_stage(void)
{
    if (mount(NULL, STAGE, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
        return failed_at("remount", STAGE);
    if (chdir(STAGE) < 0)
        return failed_at("chdir", STAGE);
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        return failed("pivot_root");
    if (umount2(".", MNT_DETACH) < 0)
        return failed("umount");
    return chdir("/") < 0 ? failed_at("chdir", "/") : 0;
}

int build_view(struct trees *trees)
{
    struct system_links links;
    int devices[LENGTH(DEVICES)];
    if (make_mounts_private() < 0)
        return -1;
    for (size_t i = 0; i < LENGTH(DEVICES); i++) {
        devices[i] = open(DEVICES[i], O_PATH | O_CLOEXEC);
        if (devices[i] < 0)
            return failed_at("open", DEVICES[i]);
    }
    read_links(&links);
    if (mount_new("tmpfs", STAGE, MS_NOSUID | MS_NODEV, "size=4m,mode=755") < 0)
        return -1;
    if (place_trees(trees, devices) < 0 || make_small_things(&links) < 0)
        return -1;
    if (mount_new("proc", STAGE "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return -1;
    /* for the zygote's imports; a seat has its own over it */
    if (furnish_private(STAGE PRIVATE, STAGE HOME, STAGE TEMPORARY, "size=64m,mode=700", INSIDE) < 0)
        return -1;
    return enter_stage();
}

/* -- seats ------------------------------------------------------------------------------------------------------- */

/* Where parts of the view lie in /tmp: make it writable all the same, with those parts put back on top. */
static int cover_tmp(const struct trees *trees, const char *quota)
{
    static int places[MAX_TREES];
    for (size_t i = 0; i < trees->count; i++) {
        places[i] = -1;
        if (lies_in(trees->list[i].path, "/tmp") && (places[i] = open(trees->list[i].path, O_PATH | O_CLOEXEC)) < 0)
            return failed_at("open", trees->list[i].path);
    }
    if (mount_new("tmpfs", "/tmp", MS_NOSUID | MS_NODEV, quota) < 0)
        return -1;
    for (size_t i = 0; i < trees->count; i++) {
        if (places[i] < 0)
            continue;
        if (make_mount_point(places[i], trees->list[i].path) < 0)
            return -1;
        int tree = clone_tree(places[i], true);
        if (tree < 0 || attach_tree(tree, trees->list[i].path) < 0)
            return -1;
        close(tree);
        close(places[i]);
    }
    return 0;
}

/* The session's user, as this namespace numbers it. */
static uid_t read_user(const struct packet *request)
{
    return (uid_t)packet_number_or(request, "user", INSIDE);
}

/* "size=..." for a tmpfs of the session's: without a bound there would be none. */
static int read_quota(const struct packet *request, char *quota, size_t room)
{
    long long bytes, files;
    if (!packet_number(request, "workspace_bytes", &bytes) || !packet_number(request, "workspace_files", &files) ||
        bytes <= 0 || files <= 0) {
        errno = EINVAL;
        return failed("quota");
    }
    (void)snprintf(quota, room, "size=%lld,nr_inodes=%lld,mode=700,uid=%u,gid=%d", bytes, files, read_user(request),
                   INSIDE);
    return 0;
}

/* Without those it may not look into: the command line of our PID 1 names places of the host. */
static int mount_processes(void)
{
    return mount_new("proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "subset=pid,hidepid=ptraceable");
}

static int open_folder(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder < 0 ? failed_at("open", path) : folder;
}

/* Where nothing counts shared memory: mapped with MAP_SHARED this device gives some that has no other name. */
static int close_zero(void)
{
    if (mount(NULL, "/dev/zero", NULL, MS_BIND | MS_REMOUNT | MS_NODEV | MS_NOSUID | MS_NOEXEC, NULL) < 0)
        return failed_at("remount", "/dev/zero");
    return 0;
}

int furnish_seat(const struct packet *request, const struct trees *trees, int tree)
{
    char quota[128];
    if (read_quota(request, quota, sizeof quota) < 0)
        return -1;
    if (tree >= 0 ? attach_tree(tree, WORKSPACE) < 0
                  : mount_new("tmpfs", WORKSPACE, MS_NOSUID | MS_NODEV, quota) < 0)
        return -1;
    if (furnish_private(PRIVATE, HOME, TEMPORARY, quota, read_user(request)) < 0)
        return -1;
    if (!is_link("/tmp") && cover_tmp(trees, quota) < 0)
        return -1;
    if (!packet_number_or(request, "memfd", 0) && close_zero() < 0)
        return -1;
    return mount_processes() < 0 ? -1 : open_folder(WORKSPACE);
}

/* "/mnt" of "/mnt/data"; false where that is all there is. */
static bool read_base(const char *target, char *base, size_t room)
{
    const char *end = strchr(target + 1, '/');
    if (end == NULL || (size_t)(end - target) >= room)
        return false;
    memcpy(base, target, (size_t)(end - target));
    base[end - target] = '\0';
    return true;
}

static int attach_mount(const char *target, int tree)
{
    return make_mount_point(tree, target) < 0 ? -1 : attach_tree(tree, target);
}

int attach_mounts(const struct packet *request, const int *mounts, size_t count)
{
    char made[MAX_MOUNTS][16], base[16];
    size_t made_count = 0, number = 0;
    for (const char *target = NULL; (target = packet_item(request, "mounts", target)) != NULL; number++) {
        if (number == count || number == MAX_MOUNTS || target[0] != '/') {
            errno = EINVAL;
            return failed("mounts");
        }
        bool known = !read_base(target, base, sizeof base);
        for (size_t i = 0; i < made_count && !known; i++)
            known = strcmp(made[i], base) == 0;
        if (!known) {
            if (mount_new("tmpfs", base, MS_NOSUID | MS_NODEV, "size=1m,mode=755") < 0)
                return -1;
            memcpy(made[made_count++], base, sizeof base);
        }
        if (attach_mount(target, mounts[number]) < 0)
            return -1;
    }
    for (size_t i = 0; i < made_count; i++)
        if (mount(NULL, made[i], NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
            return failed_at("remount", made[i]);
    return 0;
}

/* "device:inode:/path": what lies there, if it still is what the host has looked at, and no link. */
static int open_part(const char *part)
{
    unsigned long long device, inode;
    int length = 0;
    struct stat status;
    if (sscanf(part, "%llu:%llu:%n", &device, &inode, &length) != 2 || length == 0 || part[length] != '/') {
        errno = EINVAL;
        return failed("part");
    }
    int place = open(part + length, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (place < 0)
        return failed_at("open", part + length);
    if (fstat(place, &status) == 0 && status.st_dev == device && status.st_ino == inode)
        return place;
    close(place);
    errno = ESTALE;
    return failed_at("open", part + length);
}

/* Puts a part of what is mounted over itself. */
static int mount_over_itself(const char *part, uint64_t attributes)
{
    int place = open_part(part);
    if (place < 0)
        return -1;
    int tree = clone_tree(place, true);
    int result = tree < 0 ? -1 : set_tree_attributes(tree, attributes, true, 0);
    if (result == 0)
        result = attach_tree_at(tree, place);
    int reason = errno;
    if (tree >= 0)
        close(tree);
    close(place);
    errno = reason;
    return result;
}

int cover_parts(const struct packet *request)
{
    const char *part = NULL;
    /* a folder on which something is mounted cannot be renamed or removed: nothing is put in the place of what it holds */
    while ((part = packet_item(request, "pins", part)) != NULL)
        if (mount_over_itself(part, TREE_NOSUID | TREE_NODEV) < 0)
            return -1;
    while ((part = packet_item(request, "covers", part)) != NULL)
        if (mount_over_itself(part, TREE_RDONLY | TREE_NOSUID | TREE_NODEV) < 0)
            return -1;
    return 0;
}

int furnish_branch(const struct packet *request, const struct trees *trees, int folders[2])
{
    char quota[128];
    if (read_quota(request, quota, sizeof quota) < 0)
        return -1;
    if (mount_new("tmpfs", WORKSPACE, MS_NOSUID | MS_NODEV, quota) < 0 ||
        mount_new("tmpfs", PRIVATE, MS_NOSUID | MS_NODEV, quota) < 0)
        return -1;
    if (!is_link("/tmp") && cover_tmp(trees, quota) < 0)
        return -1;
    if (mount_processes() < 0)
        return -1;
    folders[0] = open_folder(WORKSPACE);
    folders[1] = folders[0] < 0 ? -1 : open_folder(PRIVATE);
    return folders[1] < 0 ? -1 : 0;
}
