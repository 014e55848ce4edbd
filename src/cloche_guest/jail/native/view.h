/* The view: the files that exist for everything behind the jail. Read-only, by descriptor, and nothing else. */
#ifndef CLOCHE_VIEW_H
#define CLOCHE_VIEW_H

#include "packet.h"

enum { MAX_TREES = 256, MAX_MOUNTS = 16 };

struct tree {
    const char *path; /* the caller's */
    int place;
};

struct trees {
    size_t count;
    struct tree list[MAX_TREES];
};

/* Opens every tree of the view, the system's and those that the host names, while we still are who can read them. */
int open_trees(const struct packet *configuration, struct trees *trees);

/* Makes the view and moves into it. We are alone in a new mount namespace, with all rights over it. */
int build_view(struct trees *trees);

/* In a seat's own mount namespace: its workspace (`tree`, or -1 for one in memory), its temporary files, its
 * processes. Returns a descriptor of the workspace. */
int furnish_seat(const struct packet *request, const struct trees *trees, int tree);

/* In a seat's own mount namespace: folders and files of the host, each at the place that the request names. Where they
 * need folders to lie in, those are made in memory, and cannot be changed afterwards. */
int attach_mounts(const struct packet *request, const int *mounts, size_t count);

/* In a seat's own mount namespace, last: parts of its workspace and of its mounts that it may read and not change
 * ("covers"), and the folders on the way to them, which stay where they are ("pins"; outermost first). */
int cover_parts(const struct packet *request);

/* In a branch's own mount namespace: folders of its own over those of its parent, and its processes. Descriptors of
 * its workspace and of its private folder. */
int furnish_branch(const struct packet *request, const struct trees *trees, int folders[2]);

#endif
