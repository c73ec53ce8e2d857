/*
 * time_calls(function regprocedure, argument text, calls integer, every_ns bigint) RETURNS bytea
 *
 * Calls a function within a backend, and reads the clock between two calls and nowhere else: a table of single calls
 * in SQL would show the executor. The answer has a native int64_t for each call, its nanoseconds. Without a function
 * only the clock is read.
 *
 * With every_ns a call is due that long after the one before it. One that is due while another one is still under way
 * counts from then on, not from when it could begin: whoever waits for it waits as long.
 */
#include "postgres.h"

#include <time.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(time_calls);

static inline int64
clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64CONST(1000000000) + now.tv_nsec;
}

/* Prepares calls of a function that takes nothing, or one argument, which is given as text. */
static void
prepare_call(FunctionCallInfo call, FmgrInfo *function, Oid oid, char *argument)
{
	fmgr_info(oid, function);
	InitFunctionCallInfoData(*call, function, argument != NULL, InvalidOid, NULL, NULL);
	if (argument)
	{
		Oid		   *types;
		int			count;
		Oid			input;
		Oid			element;

		get_func_signature(oid, &types, &count);
		getTypeInputInfo(types[0], &input, &element);
		call->args[0].value = OidInputFunctionCall(input, argument, element, -1);
		call->args[0].isnull = false;
	}
}

Datum
time_calls(PG_FUNCTION_ARGS)
{
	bool		is_called = !PG_ARGISNULL(0);
	int			calls = PG_GETARG_INT32(2);
	int64		every_ns = PG_GETARG_INT64(3);
	Size		size = VARHDRSZ + calls * sizeof(int64);
	bytea	   *answer = palloc(size);
	char	   *next = VARDATA(answer);
	FmgrInfo	function;
	int64		begin;
	int64		now;

	LOCAL_FCINFO(call, 1);

	if (is_called)
		prepare_call(call, &function, PG_GETARG_OID(0),
					 PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1)));
	SET_VARSIZE(answer, size);
	begin = now = clock_ns();
	for (int i = 0; i < calls; i++)
	{
		int64		start = now;
		int64		due = begin + i * every_ns;
		int64		ns;

		if (every_ns > 0 && now > due)
			start = due;
		else if (every_ns > 0)
		{
			while ((start = clock_ns()) < due)
				;
		}
		if (is_called)
			(void) FunctionCallInvoke(call);
		now = clock_ns();
		ns = now - start;
		memcpy(next, &ns, sizeof(ns));
		next += sizeof(ns);
		CHECK_FOR_INTERRUPTS();
	}
	PG_RETURN_BYTEA_P(answer);
}
