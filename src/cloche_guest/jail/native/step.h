/* Failures with a name: errno says why, the step says what was being done. */
#ifndef CLOCHE_STEP_H
#define CLOCHE_STEP_H

/* Notes the step that failed, and the file that it was about; both return -1 and leave errno as it is. */
int failed(const char *step);
int failed_at(const char *step, const char *path);

/* The step noted last. */
const char *failed_step(void);

#endif
