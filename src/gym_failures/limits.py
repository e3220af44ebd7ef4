"""Every bound of the package: what it limits, its unit, and where the number comes from.

Standard library only, so that tools can read the bounds without any dependency.
"""

from typing import Final

# --- Records. The published failure records of NeMo Gym (`nemo_gym.core.failure_records`) set these. ------------------

ID_LENGTH: Final = 128
"""Longest operation, attempt, cause or failure id of a record, in characters."""

TYPE_NAME_LENGTH: Final = 256
"""Longest name of an exception's type, in characters."""

NAME_LENGTH: Final = 256
"""Longest operation, provider, sandbox, execution or request name, in characters."""

REASON_LENGTH: Final = 2_000
"""Longest free text (failure reason, foreign message, provider's status reason), in characters."""

HTTP_STATUS_MIN: Final = 100
"""Lowest HTTP status; RFC 9110, section 15."""

HTTP_FINAL_STATUS_MIN: Final = 200
"""Lowest status of a reply that is not followed by another; RFC 9110, section 15.2."""

HTTP_STATUS_MAX: Final = 599
"""Highest HTTP status; RFC 9110, section 15."""

# --- Kinds. A peer can send any number of names of any length; neither memory nor log may grow with them. -------------

UNREGISTERED_KINDS_NAMED: Final = 100
"""Unregistered kinds that one process names in warnings, in names; ours, four times the vocabulary."""

KIND_LENGTH_LOGGED: Final = 128
"""Start of an unregistered kind that is remembered and logged, in characters; the longest kind on the wire."""

# --- Header and attributes. What is encoded stays within what is decoded. ---------------------------------------------

OWN_ID_LENGTH: Final = 32
"""Length of an id that is made here, in characters; a UUID (RFC 9562) in hex."""

WIRE_ID_LENGTH: Final = 128
"""Longest event id, cause id and kind on the wire and in attributes, in characters (the shortest has 1); as in the
records, for the fields that they leave open too."""

HEADER_BUDGET: Final = 2_048
"""Default size of a header value, in bytes; half of what nginx gives to all headers of a reply."""

HEADER_BUDGET_MIN: Final = 1_280
"""Smallest budget that may be set, in bytes; ours, measured: the own failure fits whatever its id and kind are, and the
root cause too where ids and kinds are Latin. In the default budget both fit in any script of the basic plane."""

HEADER_HARD_LIMIT: Final = 8_000
"""Largest size that a header value may be given, in bytes; aiohttp refuses a field over 8,190 (aiohttp#2304)."""

HEADER_OWN_REASON: Final = 128
"""Start of the own failure's texts that goes before the middle of a chain too long to fit, in characters; ours: a
sentence or two, and two such texts in Chinese take a third of the default budget."""

DECODE_LENGTH: Final = 8_192
"""Longest header value that is read, in characters; the power of two above the hard limit."""

DECODE_INFLATED: Final = 64 * 1_024
"""Largest report after decompression, in bytes; ours, eight times the longest value."""

DECODE_EVENTS: Final = 512
"""Events read from one header value, in events; ours, as many as the log of one request holds."""

DECODE_DEPTH: Final = 8
"""Deepest nesting of objects and arrays that is read, in levels; ours, twice what a report has."""

DECODE_MEMBERS: Final = DECODE_INFLATED // 12
"""Commas outside of text in a report that is read, as a measure of its members; ours: a field of a report takes 12
bytes or more, so only what is no report has more, and 64 KiB of bare numbers take longer than refusing may."""

DECODE_OBJECTS: Final = 4 * DECODE_EVENTS
"""Objects and arrays in a report that is read, in all; ours: an event is at most three, one is for newer versions."""

DECODE_AT_ONCE: Final = 8 * 1_024
"""Largest report that pydantic's core is asked to read at once, in bytes; ours: the report of one rollout is smaller,
and beyond that a report which is not exact costs more time than refusing may."""

DECODE_VALUES: Final = 4
"""Values of the header that are read from one message, in values, and none once DECODE_EVENTS are known; ours, because
each costs time and a reply has one, beside what a proxy or the application may add."""

DECODE_REJECT_SECONDS: Final = 0.001
"""Longest time to refuse a header value, in seconds; ours, held by the benchmarks."""

DECODE_ACCEPT_SECONDS: Final = 0.005
"""Longest time to read a header value, in seconds; ours, held by the benchmarks."""

REFUSED_VALUES: Final = 512
"""Values of the header that one request remembers to have refused, in values, before it refuses all; ours, as many as
the failures that its log holds."""

INTEGER_DIGITS: Final = 640
"""Longest whole number that is written or read, in digits; the least to which a host may lower Python's own limit of
converting them (`sys.int_info.str_digits_check_threshold`)."""

OTLP_INTEGER_BITS: Final = 63
"""Size of a whole number that an attribute can hold, in bits beside the sign; `int64` of OTLP's AnyValue."""

# --- Configuration. --------------------------------------------------------------------------------------------------

HEADER_REASON_LENGTH: Final = 256
"""Longest reason in a header unless configured otherwise, in characters; a tenth of the default budget."""

# --- Recording. -------------------------------------------------------------------------------------------------------

EVENTS_PER_SPAN: Final = 64
"""Events on one span from which further failures go on short spans of their own, in events; half of the 128 of which
OpenTelemetry's SDK keeps only the newest (opentelemetry-specification#1425)."""

LAST_OF_AN_EVENT: Final = 4
"""Attributes of an event by which a failure is told apart and linked: its id, kind, boundary and cause, which are
written last; OpenTelemetry's SDK drops the first beyond a limit."""

LAST_OF_A_SPAN: Final = 8
"""Attributes of a request's span from the id of its failure on: our four, and what OpenTelemetry's instrumentation
writes of the reply under old names and new ones (measured with 0.66b1 and `OTEL_SEMCONV_STABILITY_OPT_IN=http/dup`)."""

ATTRIBUTES_OF_A_SPAN: Final = 32
"""Attributes that a request's span can have: four of its failure, four of its rollout, and 24 of OpenTelemetry's
instrumentation under old names and new ones (measured as above)."""

NAMESPACED_KINDS_COUNTED: Final = 256
"""Kinds of the form `<server>:<kind>` that get a metric series of their own in one process; ours."""

LOG_EVENTS: Final = 512
"""Events that the log of one request holds, in events; as many as one header value may hold."""

LOG_SHORT_SPANS: Final = 1_024
"""Short spans that one request opens for failures which no span of its own takes, in spans; half of the 2,048 that wait
for export in OpenTelemetry's SDK by default (OTEL_BSP_MAX_QUEUE_SIZE), which drops further spans of any request."""

LOG_ATTEMPTS_FIRST: Final = 8
"""First failed attempts of one operation that a log keeps; ours."""

LOG_ATTEMPTS_LAST: Final = 8
"""Last failed attempts of one operation that a log keeps; ours."""

WAITING_AFTER: Final = 60
"""Age of a request at which it is told of while it still runs, in seconds; ours, about when people begin to look. It is
told again at twice that age, four times, ...: seven spans for a request that hangs for an hour."""

WAITING_AFTER_MAX: Final = 86_400
"""Largest such age that may be set, in seconds; ours, a day."""

WAITING_AT_ONCE: Final = 10
"""Requests that are told of in one turn of the event loop, which stands still meanwhile; ours. Each takes 0.2 ms, with
64 failures a few."""

WAITING_PAUSE: Final = 0.01
"""Pause between two such turns, in seconds; ours. With it a thousand short spans come in a second, half of the 2,048
that wait for export in OpenTelemetry's SDK by default (OTEL_BSP_MAX_QUEUE_SIZE)."""

SERVER_ERROR_STATUS: Final = 500
"""Lowest HTTP status that means the server failed; RFC 9110, section 15.6."""

# --- Exceptions. ------------------------------------------------------------------------------------------------------

CHAIN_LINKS: Final = 64
"""Exceptions raised from each other that are made failures of, in exceptions, half of them the outermost and half those
that everything began with; ours, far more than hand-written code has but in loops."""

GROUP_MEMBERS: Final = 64
"""Members of exception groups that are looked at for one exception, in all; ours."""

DESCRIPTION_LENGTH: Final = 4 * REASON_LENGTH
"""Beginning of a status's description that is looked at for secrets, in characters; ours, so that a secret which is cut
there is far from what is kept."""

GROUP_LINKS: Final = 4_096
"""Exceptions that members of groups were raised from and that are followed for one exception, in all, before each
member has only `CHAIN_LINKS`; ours, as many as `GROUP_MEMBERS` have with so many each."""

GROUP_DEPTH: Final = 8
"""Nesting of exception groups that is looked into, in levels; ours."""

CLASSIFY_HOPS: Final = 8
"""Wrapped errors that are looked into for one kind, in errors; ours, twice what requests over urllib3 needs."""

VALIDATION_ERRORS: Final = 8
"""Faults of one validation error that its reason names, in faults; ours, about as many as a line of a log holds."""

VALIDATION_ERRORS_READ: Final = 1_000
"""Faults of one validation error from which only their number is told, in faults; ours: pydantic lists all or none."""

VALIDATION_NAME_LENGTH: Final = 64
"""Longest step of a fault's location, in characters; ours. Keys of a mapping come from the input."""

CLIENT_ERROR_STATUS: Final = 400
"""Lowest HTTP status that is an error; RFC 9110, section 15.5."""

# --- Reading. A file can be of any size and hold anything. ------------------------------------------------------------

ATTRIBUTE_DEPTH: Final = 16
"""Lists and maps within one attribute's value that are read, in levels; ours, far above what any SDK writes."""

LATEST_TIME: Final = 2**63 - 1
"""Latest time that a span or an event can have, in nanoseconds since the epoch; what 64 bits with a sign hold, in the
year 2262, as Go's time.Time.UnixNano has it, with which the Collector and Jaeger read them."""

READ_BLOCK: Final = 96 * 1_024
"""What is read of a file at once, in bytes; ours, measured: glibc takes memory from 128 KiB on from the kernel, page by
page, each time anew."""

STORED_RECORD: Final = 64 * 1_024 * 1_024
"""Largest record of a file of records, unpacked, and longest line of a file of lines, in bytes; ours, sixteen times
what gRPC takes in one message."""

STORED_DOCUMENT: Final = 256 * 1_024 * 1_024
"""Largest file that is one document, unpacked, in bytes; ours: it is read as a whole, and takes several times that."""

RECOGNISED_START: Final = 256
"""What is looked at to tell one format of files from another, in bytes; ours."""

ROW_START: Final = 4 * 1_024 * 1_024
"""What is looked at for a line that tells rows of rollouts from traces, and longest that is decoded for that, in bytes;
ours: rows hold conversations."""

ROW_TIME: Final = 1
"""How far from its rollout's span the response of a saved row may have been created, in seconds; its time is cut to
whole ones (OpenAI's Responses API, "created_at")."""

ROW_TIME_UNTRACED: Final = 60 * 60
"""The same, of a rollout of which parts only were traced, in seconds; ours: rollouts take minutes, others hours."""

HELD_SPANS: Final = 20_000
"""Spans of failing traces that are held in memory before they go to a temporary file, in spans; ours, some 60 MB."""

PART_BYTES: Final = 32 * 1_024 * 1_024
"""Part of a large file that one process reads at a time, in bytes; ours: if all failed, its spans take some 100 MB."""

BATCH_SPANS: Final = 5_000
"""Spans that are read back from there at once, in spans; ours: reports take several times their spans' room."""

FOLLOWED_SPANS: Final = 50_000
"""Spans that are held of files which are still being written, in spans; ours: at 2 KB each, some 100 MB."""

FOLLOWED_AGAIN: Final = 1_000
"""Spans of one trace that are put together again in a second, in spans; ours: a trace that goes on for hours takes a
small part of one core, however large it is."""

FOLLOW_EVERY: Final = 1.0
"""How often such files are looked at, in seconds; ours."""

FOLLOW_QUIET: Final = 6.0
"""How long after its last span a trace is taken to be whole, in seconds; one more than the SDK waits before it exports
a batch (OTEL_BSP_SCHEDULE_DELAY)."""

JAEGER_TRACES: Final = 200
"""Traces that one answer of Jaeger's holds at most, in traces; ours: of 50 spans each that is some 20 MB."""

JAEGER_SECONDS: Final = 60.0
"""Longest wait for one answer of Jaeger's, in seconds; ours, because its stores on disk take several for a full one."""

JAEGER_HELD: Final = 64 * 1_024 * 1_024
"""What is held in memory of the traces that a Jaeger was asked for, in bytes; ours. More of them wait on disk."""

JAEGER_LOOKBACK: Final = 24 * 3_600
"""How far back Jaeger is asked unless a time is given, in seconds; ours, a day."""

JAEGER_MARGIN: Final = 6 * 3_600
"""How much earlier a span may have started than what failed in it, in seconds; ours: Jaeger finds spans by their start,
and a rollout can take hours."""

SKIPS_NAMED: Final = 100
"""Unreadable places of one source that are named one by one, in places; ours. All of them are counted."""

# --- Tracing of processes that others start. --------------------------------------------------------------------------

EXPORT_DELAY: Final = 1_000
"""Time until a batch of spans is sent unless OTEL_BSP_SCHEDULE_DELAY says otherwise, in milliseconds; ours, a fifth of
the SDK's, because a server that is killed takes with it what it has not sent."""

METRICS_DELAY: Final = 15_000
"""Time between two reports of counts unless OTEL_METRIC_EXPORT_INTERVAL says otherwise, in milliseconds; ours, as often
as Prometheus usually asks, and a quarter of the SDK's: whoever asks what failed in a run should not wait a minute."""

FLUSH_SECONDS: Final = 0.3
"""Longest wait at the end of a process, for its requests and for a receiver, in seconds; NeMo Gym kills a server one
second after it has told it to end, and uvicorn takes up to 0.6 of that until it cancels requests."""

FLUSH_REQUESTS_SECONDS: Final = 0.1
"""Part of it for requests that are cancelled, in seconds; ours: those that heed that end within a few turns of the
event loop."""

FLUSH_UNANSWERED_SECONDS: Final = 0.08
"""Longest look, at the end of a process, whether a receiver listens that has not answered before, and longest wait for
one of which nobody knows where it listens, in seconds; below the 100 ms that an end may take more
(opentelemetry-python#3309)."""

# --- Our own messages. ------------------------------------------------------------------------------------------------

REMEMBERED_CAUSES: Final = 1_000
"""Different internal warnings that one process says, each once (opentelemetry-js#4223); ours."""

GUARD_FRAMES: Final = 8
"""Frames, innermost last, shown of an internal error; ours."""

CUT_MARK_LENGTH: Final = 14
"""Longest mark that `text.cut` leaves, in characters."""

LARGE_FILES: Final = 64 * 1_024 * 1_024
"""Size of files from which the command shows how far it is, in bytes; ours: smaller ones take less than a second."""

SHARED_FILES: Final = 512 * 1_024 * 1_024
"""Size of files from which several processes read them, in bytes; ours, measured: below, to start them takes as long as
they save."""

WORKERS: Final = 8
"""Most processes that read unless it is said how many, in processes; ours: each takes some 60 MB, and what they find is
put together by one."""

# --- What the command shows. ------------------------------------------------------------------------------------------

TREE_EVENTS: Final = 64
"""Failures in the tree of one report beside the chain of its own failure, in failures; ours, about a screen."""

TREE_DEPTH: Final = 16
"""Causes that stand beneath each other in a tree, in levels; ours: each takes four columns of the screen."""

TREE_REASON: Final = 200
"""Longest reason in a tree, in characters; ours, about two lines of a screen."""

UNKNOWN_TIME: Final = 946_684_800 * 10**9
"""When something is said to have been that is sent and tells no time, in nanoseconds since the epoch; ours, 2000-01-01:
the same each time, because stores know a span by its time too, and no time of a run."""

SEND_SPANS: Final = 512
"""Spans that are sent at once, in spans; as many as the SDK's own batches have."""

SEND_SECONDS: Final = 30.0
"""Longest wait for a receiver to take them, in seconds; ours."""

SEND_AGAIN: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Waits before what a receiver was too busy for is sent again, in seconds; ours."""

DOCTOR_SECONDS: Final = 2.0
"""Longest wait for somebody to take a connection, in seconds; ours: a receiver is near."""

DIFF_EXAMPLES: Final = 3
"""Rollouts that are named for one change between two runs, in rollouts; ours."""

SKIPS_SHOWN: Final = 5
"""Unreadable places that the command names one by one, in places; ours. All of them are counted."""

# --- The page. --------------------------------------------------------------------------------------------------------

PAGE_ROOM: Final = 18_000_000
"""Rollouts of a page and their texts, in bytes; ours: with the rest a page stays below 20 MB, which opens at once."""

PAGE_REASON: Final = 320
"""Longest reason on a page, in characters; ours, about three lines."""

PAGE_REASON_LEAST: Final = 40
"""Shortest length to which a page cuts reasons to make room, in characters; ours: less says nothing."""

PAGE_NAMES: Final = 200
"""Kinds, and services, that a page's tables name, in names; ours: hostile peers can invent any number of kinds
(opentelemetry-python#2700)."""

PAGE_COLUMNS: Final = 72
"""Columns of the chart of time, in columns; ours, as many as stay apart on a small screen."""

PAGE_CHAINS: Final = 50
"""Chains of causes that a page lists, the most frequent first, in chains; ours."""

PAGE_CHAIN_LINKS: Final = 12
"""Failures of a chain that a page names in its list of chains, in failures; ours: chains grow by one a server."""
