/* The sandbox container's only process: it holds the pod's namespaces, reaps
 * orphans, and ends when it is told to. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) {
	(void)signal;
	_exit(0);
}

static void reap(int signal) {
	(void)signal;
	while (waitpid(-1, NULL, WNOHANG) > 0) {
	}
}

int main(void) {
	struct sigaction ending = {.sa_handler = end};
	struct sigaction reaping = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP | SA_RESTART};
	if (sigaction(SIGINT, &ending, NULL) < 0 || sigaction(SIGTERM, &ending, NULL) < 0 ||
	    sigaction(SIGCHLD, &reaping, NULL) < 0) {
		return 1;
	}
	for (;;) {
		pause();
	}
}
