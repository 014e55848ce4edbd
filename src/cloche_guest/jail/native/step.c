#include "step.h"

static const char *last_step = "";

int failed(const char *step)
{
    last_step = step;
    return -1;
}

const char *failed_step(void)
{
    return last_step;
}
