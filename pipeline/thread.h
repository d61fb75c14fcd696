/* A thread of the library: it leaves signals to the program's own threads. */
#ifndef SLI_THREAD_H
#define SLI_THREAD_H

#include <pthread.h>
#include <signal.h>

/* 0, or an errno. */
static inline int sli_thread_create(pthread_t *thread, void *(*run)(void *), void *arg) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

#endif
