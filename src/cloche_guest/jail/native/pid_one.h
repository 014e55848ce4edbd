/* The PID 1 of a seat: idle, out of the guest's reach, and never running its code. */
#ifndef CLOCHE_PID_ONE_H
#define CLOCHE_PID_ONE_H

#include "view.h"

/* Be the PID 1 of a seat whose files are ready; `control` leads to the host. Never returns. */
_Noreturn void serve_seat(int control, const struct trees *trees);

#endif
