/* Names that the inside of every jail has in common; the same as in view.py. */
#ifndef CLOCHE_PLACES_H
#define CLOCHE_PLACES_H

#define WORKSPACE "/app"
#define PRIVATE "/run/cloche" /* a seat's own home and temporary files */
#define HOME PRIVATE "/home"
#define TEMPORARY PRIVATE "/tmp"
#define MOUNT_BASES "/mnt", "/data", "/srv", "/media" /* at or below which folders of the host are given */
#define HOST_NAME "cloche"

enum { INSIDE = 1000 }; /* our user and group, as seen from within */

#endif
