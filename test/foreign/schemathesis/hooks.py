"""A sound Idempotency-Key is made a new one: what was sent with it before would be answered again, or refused."""

import uuid

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    headers = case.headers or {}
    key = headers.get("Idempotency-Key", "")
    if 0 < len(key) < 200:
        headers["Idempotency-Key"] = f"{key}-{uuid.uuid4().hex}"
