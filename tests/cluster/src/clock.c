/*
 * Preloaded into a server, this library shifts the clock of all its processes at once, by the number of microseconds in
 * the file that SNOWFLAKE_ID_CLOCK names (a native int64_t). Clocks that cannot be set, such as CLOCK_MONOTONIC and
 * CLOCK_BOOTTIME, stay real.
 *
 * The file can contain two more numbers: an instant, in microseconds of Unix time, and a step. If the instant is not 0,
 * the clock stands still at it, except that each time a process reads the clock, the clock of that process moves by the
 * step.
 *
 * libfaketime cannot be used: it switches itself off within select(). Up to version 15 the postmaster forks background
 * workers from a signal handler that interrupts its select(), so these workers would see the real time from then on.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile struct
{
	int64_t		shift_us;
	int64_t		instant_us;
	int64_t		step_us;
}		   *set;

__attribute__((constructor)) static void open_clock(void)
{
	const char *path = getenv("SNOWFLAKE_ID_CLOCK");
	int			file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (file < 0)
		abort();
	/* If the file ends after the first number, the other two read as 0, because they are in its only page. */
	set = mmap(NULL, sizeof(*set), PROT_READ, MAP_SHARED, file, 0);
	close(file);
	if (set == MAP_FAILED)
		abort();
}

static int64_t now_us(void)
{
	static int64_t readings;
	struct timespec real;

	if (set->instant_us != 0)
		return set->instant_us + readings++ * set->step_us;
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
	return real.tv_sec * INT64_C(1000000) + real.tv_nsec / 1000 + set->shift_us;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	int64_t		now = now_us();

	(void) zone;
	time->tv_sec = now / 1000000;
	time->tv_usec = now % 1000000;
	return 0;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int64_t		now;

	if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
		return syscall(SYS_clock_gettime, clock, time);
	now = now_us();
	time->tv_sec = now / 1000000;
	time->tv_nsec = now % 1000000 * 1000;
	return 0;
}

time_t time(time_t *result)
{
	time_t		now = now_us() / 1000000;

	if (result)
		*result = now;
	return now;
}
