"""Verification of berth's webhooks: one file that needs nothing but Python 3.9.

Both ways need the body's bytes as they came: verify first, parse afterwards.
"""

import base64
import hashlib
import hmac
import json
import re
import time


class WebhookError(ValueError):
    """The request is not from berth, or it is too old. Its message says which check failed."""


def verify_webhook(raw_body: bytes, headers, secret, tolerance: float = 300) -> dict:
    """Return the event of a webhook whose webhook-signature is right (Standard Webhooks).

    secret is one for all, or a function that is given the id of the directory and returns its secret, or None.
    headers is any mapping, or anything else that has items(). webhook-id is signed, too, and the same at each attempt:
    drop what you have had. tolerance says how far webhook-timestamp may be from this machine's clock, in seconds.
    Raises WebhookError: answer 401.
    """
    given = {name.lower(): value for name, value in headers.items()}
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        if not given.get(name):
            raise WebhookError(f"{name} is missing")
    timestamp = given["webhook-timestamp"]
    if not re.fullmatch("[0-9]{1,12}", timestamp) or abs(time.time() - int(timestamp)) > tolerance:
        raise WebhookError("webhook-timestamp is too far from the clock")
    signed = f"{given['webhook-id']}.{timestamp}.".encode() + raw_body
    expected = b"v1," + base64.b64encode(hmac.new(_signing_key(_secret_for(raw_body, secret)), signed, hashlib.sha256).digest())
    # There are two while a secret is being replaced.
    signatures = given["webhook-signature"].encode().split(b" ")
    if not any([hmac.compare_digest(signature, expected) for signature in signatures]):
        raise WebhookError("no signature fits the secret")
    return json.loads(raw_body)


def _secret_for(raw_body: bytes, secret) -> str:
    """The directory in the body can be trusted only after the signature has been verified with its secret."""
    if not callable(secret):
        return secret
    try:
        directory = str(json.loads(raw_body)["directory_id"])
    except (ValueError, TypeError, LookupError):
        directory = ""
    found = secret(directory)
    if found is None:
        raise WebhookError("there is no secret for this directory")
    return found


def verify(raw_body: bytes, header: str, secret: str) -> bool:
    """Say whether x-service-signature is right. It covers the body alone: an old request passes as well as a new one."""
    expected = "sha256=" + hmac.new(secret.encode(), raw_body, hashlib.sha256).hexdigest()
    return hmac.compare_digest((header or "").encode(), expected.encode())


# Base64 as Standard Webhooks has it, or berth's older secrets in the URL alphabet. Any other text is the key itself.
_BASE64 = re.compile("[A-Za-z0-9+/]+={0,2}|[A-Za-z0-9_-]{32}")


def _signing_key(secret: str) -> bytes:
    if not secret:
        raise TypeError("the secret is empty")
    text = secret[6:] if secret.startswith("whsec_") else secret
    digits = text.rstrip("=")
    if not _BASE64.fullmatch(text) or len(digits) % 4 == 1:
        return secret.encode()
    return base64.b64decode(digits + "=" * (-len(digits) % 4), altchars=b"-_" if re.search("[-_]", digits) else None)
