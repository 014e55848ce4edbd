/* Failures with a name: errno says why, the step says what was being done. */
#ifndef CLOCHE_STEP_H
#define CLOCHE_STEP_H

/* Notes the step that failed and returns -1; errno is left as the call set it. */
int failed(const char *step);

/* The step noted last. */
const char *failed_step(void);

#endif
