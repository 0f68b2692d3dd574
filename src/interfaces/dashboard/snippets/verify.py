import hashlib, hmac

# While you replace the secret, `secrets` has both: the old one and the new one.
def verify(raw_body: bytes, header: str, secrets: list[str]) -> bool:
    given = (header or "").encode()
    signed = ("sha256=" + hmac.new(secret.encode(), raw_body, hashlib.sha256).hexdigest() for secret in secrets)
    return any(hmac.compare_digest(given, expected.encode()) for expected in signed)
