#include "config/stop.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

static const int stopping[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

void stop_handle(void (*handler)(int number))
{
  struct sigaction action = {.sa_handler = handler}, given;
  for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++)
    sigaddset(&action.sa_mask, stopping[i]);
  for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++)
    if (sigaction(stopping[i], NULL, &given) == 0 && given.sa_handler != SIG_IGN)
      sigaction(stopping[i], &action, NULL);
}

_Noreturn void stop_by(int number)
{
  sigset_t one;
  signal(number, SIG_DFL);
  sigemptyset(&one);
  sigaddset(&one, number);
  sigprocmask(SIG_UNBLOCK, &one, NULL);
  raise(number);
  _exit(EXIT_SIGNAL + number);
}

static void on_signal(int number)
{
  stop_by(number);
}

void stop_at_once(void)
{
  stop_handle(on_signal);
}

_Noreturn void stop_now(int code)
{
  fflush(stdout);
  _exit(code);
}
