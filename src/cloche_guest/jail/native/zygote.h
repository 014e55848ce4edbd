/* Starting the zygote: a Python inside the view. */
#ifndef CLOCHE_ZYGOTE_H
#define CLOCHE_ZYGOTE_H

#include "packet.h"

/* What it needs of the host's files, read before the view covers them. */
struct zygote_files {
    int guest;   /* the compiled guest */
    int library; /* the compiled form of what follows a fork */
};

int load_zygote_files(const struct packet *configuration, struct zygote_files *files);

/* Starts it, with the configuration as its first message. Returns our line to it; takes the files over. */
int start_zygote(const struct packet *configuration, struct zygote_files *files, int host);

#endif
