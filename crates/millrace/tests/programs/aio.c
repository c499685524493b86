/* POSIX asynchronous I/O (tell.h). */
#define _GNU_SOURCE
#include "tell.h"
#include <aio.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

static volatile sig_atomic_t signals, last_value, last_code, last_sender;
static sem_t called;
static int value_called;

static void handler(int number, siginfo_t *information, void *context)
{
	(void)number, (void)context;
	signals++;
	last_value = information->si_value.sival_int;
	last_code = information->si_code;
	last_sender = information->si_pid == getpid();
}

static void call(union sigval value)
{
	value_called = value.sival_int;
	sem_post(&called);
}

/* The signal is blocked everywhere else, so that no signal is missed. */
static void await_signals(int count)
{
	sigset_t none;
	sigemptyset(&none);
	while (signals < count)
		sigsuspend(&none);
	T(signals);
	T(last_value);
	T(last_code == SI_ASYNCIO);
	T(last_sender);
}

static void await(struct aiocb *request)
{
	const struct aiocb *list[1] = {request};
	while (aio_error(request) == EINPROGRESS)
		aio_suspend(list, 1, NULL);
	tell(" aio_error %s", aio_error(request) ? strerrorname_np(aio_error(request)) : "none");
	T(aio_return(request));
}

/* Each request has its own memory: glibc's thread may read a request once more after it has set its
 * result. */
static struct aiocb *ask(int fd, int operation, char *buffer, int count, int offset, int notify, int value)
{
	static struct aiocb requests[64];
	static int used;
	struct aiocb *request = &requests[used++];
	request->aio_fildes = fd, request->aio_lio_opcode = operation;
	request->aio_buf = buffer, request->aio_nbytes = count, request->aio_offset = offset;
	request->aio_sigevent.sigev_notify = notify;
	request->aio_sigevent.sigev_value.sival_int = value;
	if (notify == SIGEV_SIGNAL)
		request->aio_sigevent.sigev_signo = SIGUSR1;
	if (notify == SIGEV_THREAD)
		request->aio_sigevent.sigev_notify_function = call;
	return request;
}

static void prepare(void)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	sigset_t one;
	sigemptyset(&one), sigaddset(&one, SIGUSR1);
	sigprocmask(SIG_BLOCK, &one, NULL);
	sigaction(SIGUSR1, &action, NULL);
	sem_init(&called, 0, 0);
}

static void requests(void)
{
	char buffer[64] = "0123456789", got[64] = "";
	struct aiocb *request;
	prepare();
	int fd = open("f", O_CREAT | O_TRUNC | O_RDWR, 0644), reader = open("f", O_RDONLY), folder = open(".", O_RDONLY);
	request = ask(fd, 0, buffer, 10, 0, SIGEV_NONE, 0);
	E(aio_write(request));
	await(request);
	request = ask(fd, 0, got, 4, 3, SIGEV_SIGNAL, 7);
	E(aio_read(request));
	await_signals(1);
	await(request);
	tell(" got %s", got);
	request = ask(fd, 0, buffer, 3, 20, SIGEV_THREAD, 8);
	E(aio_write(request));
	T(sem_wait(&called));
	T(value_called);
	await(request);
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	request = ask(fd, 0, got, 60, 0, SIGEV_THREAD, 9);
	request->aio_sigevent.sigev_notify_attributes = &attributes;
	E(aio_read(request));
	T(sem_wait(&called));
	T(value_called);
	await(request);
	request = ask(fd, 0, NULL, 0, 0, SIGEV_SIGNAL, 10);
	E(aio_fsync(O_DSYNC, request));
	await_signals(2);
	await(request);
	E(aio_fsync(77, request));
	request = ask(reader, 0, NULL, 0, 0, SIGEV_NONE, 0);
	E(aio_fsync(O_SYNC, request));
	/* All zeroes: a notification by signal 0, which sends no signal. */
	request = ask(fd, 0, got, 2, 0, 0, 0);
	memset(&request->aio_sigevent, 0, sizeof request->aio_sigevent);
	E(aio_read(request));
	await(request);
	T(signals);
	E(aio_cancel(fd, request) != AIO_ALLDONE);
	request = ask(reader, 0, buffer, 10, 0, SIGEV_SIGNAL, 11);
	E(aio_write(request));
	await_signals(3);
	await(request);
	request = ask(folder, 0, got, 10, 0, SIGEV_NONE, 0);
	E(aio_read(request));
	await(request);
	request = ask(fd, 0, got, 10, 0, SIGEV_NONE, 0);
	request->aio_reqprio = 21;
	E(aio_read(request));
	request = ask(fd, 0, got, 10, -1, SIGEV_NONE, 0);
	E(aio_read(request));
	await(request);
	int appender = open("f", O_WRONLY | O_APPEND);
	request = ask(appender, 0, buffer, 2, 0, SIGEV_NONE, 0);
	E(aio_write(request));
	await(request);
	T(lseek(fd, 0, SEEK_END));
}

static void lists(void)
{
	char buffer[64] = "0123456789", got[4][16];
	struct aiocb *requests[6];
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 21};
	prepare();
	int fd = open("f", O_CREAT | O_TRUNC | O_RDWR, 0644), other = open(local, O_CREAT | O_TRUNC | O_RDWR, 0644);
	int reader = open("f", O_RDONLY);
	for (int i = 0; i < 3; i++)
		requests[i] = ask(fd, LIO_WRITE, buffer, 10, 10 * i, SIGEV_NONE, 0);
	E(lio_listio(LIO_WAIT, requests, 3, NULL));
	for (int i = 0; i < 3; i++)
		await(requests[i]);
	for (int i = 0; i < 3; i++)
		requests[i] = ask(fd, LIO_READ, got[i], 4, 10 * i + i, SIGEV_NONE, 0);
	E(lio_listio(LIO_NOWAIT, requests, 3, &event));
	await_signals(1);
	for (int i = 0; i < 3; i++) {
		await(requests[i]);
		tell(" got %.4s", got[i]);
	}
	event.sigev_notify = SIGEV_THREAD, event.sigev_notify_function = call, event.sigev_notify_attributes = NULL;
	event.sigev_value.sival_int = 22;
	requests[0] = ask(fd, LIO_WRITE, buffer, 5, 40, SIGEV_SIGNAL, 23);
	E(lio_listio(LIO_NOWAIT, requests, 1, &event));
	T(sem_wait(&called));
	T(value_called);
	await_signals(2);
	await(requests[0]);
	E(lio_listio(LIO_NOWAIT, requests, 0, &event));
	T(sem_wait(&called));
	/* One list has files of both kinds. The call returns when all requests are done. */
	for (int i = 0; i < 4; i++)
		requests[i] = ask(i % 2 ? fd : other, LIO_WRITE, buffer, 10, 100 * i, SIGEV_NONE, 0);
	requests[4] = ask(fd, LIO_NOP, NULL, 0, 0, SIGEV_NONE, 0);
	E(lio_listio(LIO_WAIT, requests, 5, NULL));
	for (int i = 0; i < 4; i++)
		await(requests[i]);
	event.sigev_value.sival_int = 24;
	for (int i = 0; i < 4; i++)
		requests[i] = ask(i % 2 ? fd : other, LIO_READ, got[i], 4, 100 * i, SIGEV_NONE, 0);
	E(lio_listio(LIO_NOWAIT, requests, 4, &event));
	T(sem_wait(&called));
	T(value_called);
	for (int i = 0; i < 4; i++) {
		await(requests[i]);
		tell(" got %.4s", got[i]);
	}
	/* A failed request does not stop the others. */
	requests[0] = ask(reader, LIO_WRITE, buffer, 10, 0, SIGEV_NONE, 0);
	requests[1] = ask(fd, LIO_WRITE, buffer, 10, 500, SIGEV_NONE, 0);
	E(lio_listio(LIO_WAIT, requests, 2, NULL));
	await(requests[0]), await(requests[1]);
	requests[0] = ask(fd, 77, buffer, 10, 0, SIGEV_NONE, 0);
	requests[1] = ask(fd, LIO_WRITE, buffer, 10, 600, SIGEV_NONE, 0);
	E(lio_listio(LIO_WAIT, requests, 2, NULL));
	await(requests[1]);
	event.sigev_notify = SIGEV_NONE;
	requests[0] = ask(reader, LIO_WRITE, buffer, 10, 0, SIGEV_NONE, 0);
	E(lio_listio(LIO_NOWAIT, requests, 1, &event));
	await(requests[0]);
	E(lio_listio(77, requests, 1, NULL));
	T(lseek(fd, 0, SEEK_END));
}

int main(int count, char **arguments)
{
	static const struct section sections[] = {{"requests", requests}, {"lists", lists}};
	return run_section(count, arguments, sections, sizeof sections / sizeof *sections);
}
