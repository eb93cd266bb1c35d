#include "tools/enqueue/stop.h"
#include "config/stop.h"

#include <pthread.h>
#include <unistd.h>

static const char *_Atomic last_words = "";
static volatile sig_atomic_t waits, asked;

static void on_signal(int number)
{
  (void)number;
  if (waits && !asked) {
    asked = true;
    return;
  }
  const char *words = last_words;
  ssize_t written = write(STDERR_FILENO, words, strlen(words));
  (void)written; /* stderr may be closed */
  _exit(EXIT_FAILED);
}

_Noreturn static void *thread_main(void *unblocked)
{
  pthread_sigmask(SIG_SETMASK, unblocked, NULL);
  for (;;)
    pause();
}

bool stop_catch(const char *words, sigset_t *unblocked)
{
  static sigset_t before;
  sigset_t all;
  pthread_t thread;
  stop_words(words);
  stop_handle(on_signal);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  *unblocked = before;
  return pthread_create(&thread, NULL, thread_main, &before) == 0;
}

void stop_wait(void)
{
  waits = true;
}

bool stop_asked(void)
{
  return asked;
}

void stop_words(const char *words)
{
  static char texts[2][STOP_WORDS_SIZE];
  char *next = texts[last_words == texts[0]];
  snprintf(next, STOP_WORDS_SIZE, "%s", words);
  last_words = next;
}
