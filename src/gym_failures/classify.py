"""Tell what kind of failure an exception is, and what of it may be kept.

Exceptions of other libraries are recognised by the names of their classes, so none of them is imported. Nothing here
raises on an exception whose attributes or `str()` do (ray#44878).
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from gym_failures import kinds, limits
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.looking import is_really, look
from gym_failures.marks import cause_of
from gym_failures.records import SdkErrorDetails
from gym_failures.rules import DEFAULT_RULES, SDK_SHAPE, Rule
from gym_failures.text import clean, cut, text_of, type_name

__all__ = ["DEFAULT_RULES", "Classification", "Rule", "classify", "default_kind", "kind_for_status", "kind_of_reply"]

_BY_BOUNDARY: Final[Mapping[FailureBoundary, str]] = {
    FailureBoundary.AGENT: kinds.AGENT_RUN_ERROR,
    FailureBoundary.COLLECTION: kinds.AGENT_REQUEST_FAILED,
    FailureBoundary.ENVIRONMENT: kinds.ENVIRONMENT_SERVER_FAILED,
    FailureBoundary.HARNESS: kinds.AGENT_RUN_ERROR,
    FailureBoundary.MODEL: kinds.PROVIDER_UNAVAILABLE,
    FailureBoundary.RESOURCES_SERVER: "resources_server:tool_error",
    FailureBoundary.SANDBOX: kinds.PROVIDER_UNAVAILABLE,
}
_PROVIDERS: Final = frozenset({FailureBoundary.MODEL, FailureBoundary.SANDBOX})
"""The boundaries whose peer is a provider."""

_QUOTA_CODES: Final = frozenset(
    {
        "billing_hard_limit_reached",
        "insufficient_quota",
        "quota_exceeded",
        "rate_limit_error",
        "rate_limit_exceeded",
        "resource_exhausted",
    }
)
_TOO_MANY_REQUESTS: Final = 429
_TIMEOUT_STATUSES: Final = frozenset({408, 504})
_DENIED_STATUSES: Final = frozenset({401, 403})


class Classification(NamedTuple):
    """What an exception was recognised as."""

    kind: str
    """The kind; by boundary where nothing more exact is known."""
    foreign_error: SdkErrorDetails | None
    """What may be kept of another library's error; None for the application's own."""
    http_status: int | None
    """The HTTP status that the exception reports; None where there was no answer."""
    reason: str
    """Text for people, at most 2,000 characters: chosen, where `str()` could hold request data."""
    recognised: bool
    """Whether a rule tells the kind; if not, `kind` is that of the boundary."""


def default_kind(boundary: FailureBoundary, stage: FailureStage | None = None) -> str:
    """Return the kind of a failure of which nothing is known but where it was observed."""
    if boundary is FailureBoundary.RESOURCES_SERVER and stage is FailureStage.VERIFICATION:
        return kinds.VERIFIER_ERROR
    return _BY_BOUNDARY[boundary]


def kind_for_status(status: int | None, *, code: str | None = None) -> str | None:
    """Return the kind that a provider's HTTP status and error code mean; None where they mean no failure."""
    if status == _TOO_MANY_REQUESTS or (code is not None and code.lower() in _QUOTA_CODES):
        return kinds.PROVIDER_QUOTA_EXHAUSTED
    if status is None or not limits.CLIENT_ERROR_STATUS <= status <= limits.HTTP_STATUS_MAX:
        return None
    if status in _TIMEOUT_STATUSES:
        return kinds.TRANSPORT_TIMEOUT
    if status in _DENIED_STATUSES or status >= limits.SERVER_ERROR_STATUS:
        return kinds.PROVIDER_UNAVAILABLE
    return kinds.PROTOCOL_VIOLATION


def kind_of_reply(status: int, *, boundary: FailureBoundary, stage: FailureStage | None = None) -> str:
    """Return the kind of a failed call that was answered with `status`, for an observer at `boundary`."""
    kind = kind_for_status(status)
    return default_kind(boundary, stage) if kind is None or _is_misplaced(kind, boundary) else kind


def classify(
    error: BaseException,
    *,
    boundary: FailureBoundary,
    stage: FailureStage | None = None,
    rules: Sequence[Rule] = (),
) -> Classification:
    """Tell what `error` is to an observer at `boundary`; `rules` come before `DEFAULT_RULES`. Never raises."""
    own = _indexed(tuple(rules)) if rules else None
    rule = _rule_for(error, own, boundary)
    if rule is None:
        reason = cut(text_of(error), limits.REASON_LENGTH)
        return Classification(default_kind(boundary, stage), None, None, reason, recognised=False)
    status = next((found for path in rule.status if (found := _status(_look(error, path))) is not None), None)
    kind = rule.kind or _kind_by_status(error, rule, status, boundary)
    message = _message(error, rule)
    inner = _inner(error, rule, own, limits.CLASSIFY_HOPS)
    if inner is not None:
        kind = inner[0].kind or kind
        message = message or _message(inner[1], inner[0])
    message = cut(message, limits.REASON_LENGTH)
    details = None
    if rule.message is not None:
        details = SdkErrorDetails(exception_type=type_name(error), message=message, http_status=status)
    return Classification(kind or default_kind(boundary, stage), details, status, message, recognised=kind is not None)


_Index = Mapping[str, tuple[Rule, ...]]


@lru_cache(maxsize=16)
def _indexed(rules: tuple[Rule, ...]) -> _Index:
    """Return the rules by each class name that they mention, in their order."""
    index: dict[str, tuple[Rule, ...]] = {}
    for rule in rules:
        for name in rule.types:
            key = name.removeprefix("builtins.")
            index[key] = (*index.get(key, ()), rule)
    return index


_DEFAULT_INDEX: Final = _indexed(DEFAULT_RULES)


@lru_cache(maxsize=1024)
def _names_of(kind: type) -> tuple[tuple[str, ...], ...]:
    """Return, for the class and each of its bases, the names under which a rule can mention it."""
    return tuple(tuple(_names_of_one(base)) for base in kind.__mro__)


def _names_of_one(kind: type) -> Iterator[str]:
    name = kind.__qualname__
    module: object = kind.__module__  # a class can set it to anything
    if not isinstance(module, str) or module == "builtins":
        yield name
        return
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        yield ".".join((*parts[:length], name))


def _rule_for(error: BaseException, own: _Index | None, boundary: FailureBoundary | None) -> Rule | None:
    """Return the first rule that holds, the user's before ours; `boundary` None is within another error."""
    names = look(_names_of, cast("Hashable", type(error)))  # A metaclass can break hash, mro and names.
    if names is None:
        return None
    for index in (own, _DEFAULT_INDEX):
        if index is None:
            continue
        for name in (name for of_class in names for name in of_class):
            for rule in index.get(name, ()):
                if _holds(rule, error, boundary):
                    return rule
    return SDK_SHAPE if boundary is not None and _has_sdk_shape(error) else None


def _holds(rule: Rule, error: BaseException, boundary: FailureBoundary | None) -> bool:
    if rule.boundaries and boundary not in rule.boundaries:
        return False
    if rule.errnos:
        number = _whole_number(_look(error, "errno"))
        if number is None or number not in rule.errnos:
            return False
    when = rule.when
    return when is None or look(lambda: bool(when(error))) is True


def _has_sdk_shape(error: BaseException) -> bool:
    has_status = any(_status(_look(error, path)) is not None for path in SDK_SHAPE.status)
    return has_status and any(_look(error, name) is not None for name in ("body", "response", "request"))


def _kind_by_status(error: BaseException, rule: Rule, status: int | None, boundary: FailureBoundary) -> str | None:
    code = next((found for path in rule.code if (found := _text(_look(error, path))) is not None), None)
    kind = kind_for_status(status, code=code)
    return None if kind is not None and not rule.provider and _is_misplaced(kind, boundary) else kind


def _is_misplaced(kind: str, boundary: FailureBoundary) -> bool:
    """Tell whether `kind` speaks of a provider where the peer is none."""
    return kind in {kinds.PROVIDER_UNAVAILABLE, kinds.PROTOCOL_VIOLATION} and boundary not in _PROVIDERS


def _inner(error: BaseException, rule: Rule, own: _Index | None, hops: int) -> tuple[Rule, BaseException] | None:
    """Return the innermost known error that `error` wraps, and its rule; None when it wraps none that is known."""
    for path in rule.inside:
        node = _look(error, path)
        while is_really(node, BaseException) and hops > 0:
            hops -= 1
            found = _rule_for(node, own, None)
            if found is not None:
                return _inner(node, found, own, hops) or (found, node)
            node = cause_of(node)
    return None


def _message(error: BaseException, rule: Rule) -> str:
    if rule.message is None:
        text = text_of(error)
        return text if rule.text is None else clean(_text(look(rule.text, text)) or "")
    if callable(rule.message):
        return clean(_text(look(rule.message, error)) or "")
    for path in rule.message:
        found = _text(_look(error, path))
        if found:
            return clean(found)
    return ""


def _status(value: object) -> int | None:
    """Return `value` when it is an HTTP status; `http.HTTPStatus` is one, True is none."""
    number = _whole_number(value)
    return number if number is not None and limits.HTTP_STATUS_MIN <= number <= limits.HTTP_STATUS_MAX else None


# Of a subclass, whose methods are someone else's code, the plain value is taken.


def _whole_number(value: object) -> int | None:
    return int.__index__(value) if is_really(value, int) else None


def _text(value: object) -> str | None:
    return str.__str__(value) if is_really(value, str) else None


def _look(start: object, path: str) -> object:
    """Return what a path such as ``body.message`` or ``args.0`` leads to, or None."""
    return look(_follow, start, path)


def _follow(start: object, path: str) -> object:
    value: Any = start
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, (tuple, list)):
            value = value[int(name)]
        else:
            value = getattr(value, name, None)
    return value
