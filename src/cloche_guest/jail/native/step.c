#include "step.h"

#include <errno.h>
#include <stdio.h>

static char last_step[256];

int failed(const char *step)
{
    return failed_at(step, "");
}

int failed_at(const char *step, const char *path)
{
    int reason = errno;
    (void)snprintf(last_step, sizeof last_step, "%s%s%s", step, *path ? " " : "", path); /* a long one is cut */
    errno = reason;
    return -1;
}

const char *failed_step(void)
{
    return last_step;
}
