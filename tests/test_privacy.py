"""What is taken out of a failure before it leaves the process."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import limits, selfmetrics
from gym_failures.config import Config, ConfigError
from gym_failures.privacy import HIDDEN, canonical, reason_policy, scrub, shortened
from gym_failures.records import FailureEvent, SandboxFailureDetails, SdkErrorDetails
from tests.strategies import failure_events, texts

# Made of parts, so that no scanner of repositories takes a test for a leak.
SECRET = "A1b2C3d4" + "E5f6G7h8"

HIDDEN_SECRETS = {
    "bearer": (f"header Authorization: Bearer {SECRET} was refused", "header Authorization: Bearer *** was refused"),
    "bearer in any case": (f"bearer {SECRET}", "Bearer ***"),
    "basic": (f"Basic {SECRET}==", "Basic ***"),
    "openai key": (f"Incorrect API key provided: sk-proj-{SECRET}.", "Incorrect API key provided: sk-***"),
    "hugging face key": (f"hf_{SECRET} is not valid", "hf_*** is not valid"),
    "nvidia key": (f"(nvapi-{SECRET})", "(nvapi-***)"),
    "github token": (f"ghp_{SECRET} github_pat_{SECRET}", "ghp_*** github_pat_***"),
    "slack token": (f"xoxb-{SECRET}", "xoxb-***"),
    "aws key": (f"AKIA{SECRET}", "AKIA***"),
    "google key": (f"AIza{SECRET}", "AIza***"),
    "json web token": (f"eyJ{SECRET}.eyJ{SECRET}.{SECRET}", "eyJ***"),
    "user of a url": (f"https://user:{SECRET}@host:1/path failed", "https://***@host:1/path failed"),
    "query of a url": (f"GET https://host/path?{SECRET} failed", "GET https://host/path?*** failed"),
    "query, fragment kept": (f"https://host/?a={SECRET}#part", "https://host/?***#part"),
    "query of a path": (f"GET /v1/models?key={SECRET}&x=1 failed", "GET /v1/models?*** failed"),
    "slash in a password": (f"redis://:{SECRET}/x@host:1 failed", "redis://***@host:1 failed"),
    "hash in a password": (f"postgres://app:x#{SECRET}@db/rows", "postgres://***@db/rows"),
    "question mark in a password": (f"postgres://app:x?{SECRET}@db/rows", "postgres://***@db/rows"),
    "quote in a password": (f"https://u:x'{SECRET}@h/", "https://***@h/"),
    "database url": (f"postgresql+asyncpg://app:{SECRET}@db/rows", "postgresql+asyncpg://***@db/rows"),
    "password": (f"password={SECRET}, user=me", "password=***, user=me"),
    "spaced password": (f"DB_PASSWORD : {SECRET}", "DB_PASSWORD : ***"),
    "json": (f'{{"api_key": "{SECRET} {SECRET}", "n": 1}}', '{"api_key": ***, "n": 1}'),
    "python repr": (f"{{'access_token': '{SECRET}'}}", "{'access_token': ***}"),
    "json in json": (f'"{{\\"client_secret\\": \\"{SECRET}\\"}}"', '"{\\"client_secret\\": ***}"'),
    "header in a repr": (f"'authorization': 'token {SECRET}'", "'authorization': ***"),
    "scheme of another name": (f"authorization: ApiKey {SECRET} was refused", "authorization: *** was refused"),
    "parts of a digest": (f'Authorization: Digest username="a b", response="{SECRET}"', "Authorization: Digest ***"),
    "parts of a signature": (f"Authorization: AWS4-HMAC-SHA256 A=b, Signature={SECRET}", "Authorization: ***"),
    "second cookie": (f"Cookie: theme=dark; session={SECRET} was refused", "Cookie: *** was refused"),
    "keys of inference services": (f"gsk_{SECRET} xai-{SECRET} pplx-{SECRET}", "gsk_*** xai-*** pplx-***"),
    "payment key": (f"sk_live_{SECRET}", "sk_live_***"),
    "environment": (f"OPENAI_API_KEY={SECRET}", "OPENAI_API_KEY=***"),
    "unclosed": (f'token="{SECRET} {SECRET}', "token=***"),
    "private key": (f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY----- x", "*** x"),
    "mail service key": (f"SG.{SECRET}.{SECRET}", "SG.***"),
    "cloud access token": (f"ya29.{SECRET}", "ya29.***"),
    "storage account": (f"AccountName=a;AccountKey={SECRET}==;B=c", "AccountName=a;AccountKey=***;B=c"),
    "signature": (f"sv=1&sig={SECRET}%3D", "sv=1&sig=***"),
    "option": (f"run --password {SECRET} --db-token {SECRET} -v", "run --password *** --db-token *** -v"),
    "header pair": (f"[('x-api-key', '{SECRET}'), ('n', 'm')]", "[('x-api-key', ***), ('n', 'm')]"),
    "raw header pair": (f"(b'authorization', b'Token {SECRET}')", "(b'authorization', b***)"),
    "cut private key": (f"-----BEGIN PRIVATE KEY-----\n{SECRET}", "***"),
}


@pytest.mark.parametrize(("text", "expected"), HIDDEN_SECRETS.values(), ids=HIDDEN_SECRETS)
def test_hides_what_looks_like_a_secret(text, expected):
    """Credentials, keys, and what URLs hold beside host and path, are hidden; the text around them stays."""
    assert scrub(text) == expected
    assert SECRET not in scrub(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "agent could not finish its run because the tool server failed",
        "[Errno 111] Connect call failed ('127.0.0.1', 21400)",
        "basic authentication is required",
        "Internal Server Error: 500",
        "missing at body.messages.0; int_parsing at body.max_tokens",
        "max_tokens=4096 is over the limit of 2048 tokens",
        "GET https://host:8000/v1/responses failed after 3 attempts",
        "KeyError: 'reward'",
        "GET http://host:8000/users/@me and http://host/@me failed",
        "unknown option --key; design: signal 9",
        "expected one of 'token', or 'other'",
        "a task-force of sk-learn and risk-averse people",
        "what now? a=1 or nothing",
        "模型服务超时, 请稍后再试🔥",
        "01a2281d8986750c89d9ec5a325abcfb.3",
        "Why? Because.",
    ],
)
def test_leaves_other_text_alone(text):
    """Text without a secret comes back as it is, so that it can still be searched and grouped."""
    assert scrub(text) == text


@given(
    st.one_of(
        texts(limits.REASON_LENGTH), st.lists(st.sampled_from([v[0] for v in HIDDEN_SECRETS.values()])).map(" ".join)
    )
)
def test_scrubbing_twice_changes_nothing_more(text):
    """A text that crosses many servers is scrubbed at each, and reads the same after the first."""
    assert scrub(scrub(text)) == scrub(text)


STUTTERS = ["://", "?a", "?a=", "token='", 'token="', "password  ", "bearer ", "basic a", "sk-", "eyJ.", "a@", "https://a:b@",
            "-----BEGIN PRIVATE KEY-----", "-----BEGIN A ", "-----END ", "key=\\'", "token:token:", "_key",
            "cookie:", "cookie: a", 'cookie: a="', "; a="]  # fmt: skip


@pytest.mark.parametrize("piece", STUTTERS)
def test_hostile_text_takes_linear_time(piece):
    """Text made to trip a pattern costs its length: at ten times the length far less than the square would.

    A pattern that goes back over its text would need minutes for the longer text here, and the test its time limit.
    """
    assert len(scrub(piece * (2_000_000 // len(piece)))) <= 2_000_000 + len(HIDDEN)


@pytest.mark.parametrize(
    ("setting", "reason", "expected"),
    [
        ("full", "x" * 2000, "x" * 2000),
        ("off", "reason", ""),
        ("truncate:10", "0123456789", "0123456789"),
        ("truncate:10", "0123456789a", "01234…[+6]"),
    ],
)
def test_a_policy_shortens_reasons(setting, reason, expected):
    """Full keeps all, off nothing, and truncate:N at most N characters with the mark of what is missing."""
    assert reason_policy(setting)(reason) == expected


def test_a_wrong_policy_is_refused():
    """A setting that is none of the three is an error at once."""
    with pytest.raises(ConfigError, match="reasons must be"):
        reason_policy("short")


def event(**fields):
    """Make an event at the sandbox."""
    given = {"event_id": "id", "boundary": "sandbox", "failure_kind": "cancelled"}
    return FailureEvent(**given | fields)


def test_hides_secrets_in_every_text_for_people():
    """Reason, foreign message and the provider's status reason are scrubbed; nothing else is."""
    text, hidden = HIDDEN_SECRETS["password"]
    made = canonical(
        event(
            failure_reason=text,
            operation=text,
            foreign_error=SdkErrorDetails(exception_type="a.B", message=text),
            details=SandboxFailureDetails(provider=text, provider_status_reason=text),
        ),
        Config(),
    )
    assert made == event(
        failure_reason=hidden,
        operation=text,
        foreign_error=SdkErrorDetails(exception_type="a.B", message=hidden),
        details=SandboxFailureDetails(provider=text, provider_status_reason=hidden),
    )


def test_the_built_in_scrubber_can_be_switched_off():
    """With `scrub=False` the texts stay as they are."""
    dirty = event(failure_reason=f"password={SECRET}")
    assert canonical(dirty, Config(scrub=False)) is dirty


def test_a_users_scrubber_comes_after_ours():
    """It gets the text that ours left, and its result is made legal and bounded."""
    seen = []

    def scrubber(text):
        seen.append(text)
        return text.upper() + "\ud800" + "x" * limits.REASON_LENGTH

    made = canonical(event(failure_reason="password=a"), Config(scrubber=scrubber))
    assert seen == ["password=***"]
    assert made.failure_reason.startswith("PASSWORD=***\ufffdxxx")
    assert len(made.failure_reason) == limits.REASON_LENGTH


@pytest.mark.parametrize("scrubber", [lambda text: text.nothing, lambda _text: None, lambda _text: b"bytes"])
def test_a_broken_scrubber_costs_the_reason_only(monkeypatch, scrubber):
    """When it raises or returns no text, the reason is dropped and counted; the failure stays."""
    reasons = []
    monkeypatch.setattr(selfmetrics, "internal_error", reasons.append)
    details = SandboxFailureDetails(provider="p", provider_status_reason="secret")
    made = canonical(event(failure_reason="secret", details=details), Config(scrubber=scrubber))
    assert (made.event_id, made.failure_kind, made.failure_reason) == ("id", "cancelled", "")
    assert made.details == SandboxFailureDetails(provider="p", provider_status_reason="")
    assert reasons == ["scrubber", "scrubber"]


@given(failure_events(wire=True))
def test_a_clean_event_is_returned_itself(made):
    """What needs no change is not copied, since every event of every reply comes through here."""
    assert canonical(made, Config(scrub=False)) is made


@given(failure_events(wire=False, surrogates=True))
def test_any_event_becomes_legal_on_the_wire_and_stays_so(made):
    """Ids and kind fit the wire, all text is Unicode, the record is valid, and doing it twice changes nothing more."""
    clean_event = canonical(made, Config())
    clean_event.model_dump_json()
    assert 1 <= len(clean_event.event_id) <= limits.WIRE_ID_LENGTH
    assert 1 <= len(clean_event.failure_kind) <= limits.WIRE_ID_LENGTH
    assert FailureEvent.model_validate(clean_event.model_dump()) == clean_event
    assert canonical(clean_event, Config()) is clean_event


def test_a_long_id_and_a_reference_to_it_still_agree():
    """An event id over 128 characters and the cause that names it are shortened alike."""
    long_id = "x" * 300
    made = canonical(event(event_id=long_id), Config())
    effect = canonical(event(event_id="effect").model_copy(update={"cause_id": long_id}), Config())
    assert effect.cause_id == made.event_id != long_id


def test_reasons_can_be_shortened_for_one_way_out():
    """A policy applies to the three texts for people, and to nothing else; without a change the event is itself."""
    details = SandboxFailureDetails(provider="provider", provider_status_reason="status reason")
    foreign = SdkErrorDetails(exception_type="some.Error", message="the message")
    made = event(failure_reason="the reason", operation="operation", foreign_error=foreign, details=details)
    assert shortened(made, reason_policy("full")) is made
    off = shortened(made, reason_policy("off"))
    assert off == event(
        operation="operation",
        foreign_error=SdkErrorDetails(exception_type="some.Error", message=""),
        details=SandboxFailureDetails(provider="provider", provider_status_reason=""),
    )
