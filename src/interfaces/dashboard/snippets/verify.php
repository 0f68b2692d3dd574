<?php
// While you replace the secret, $secrets has both: the old one and the new one.
function verify(string $rawBody, ?string $header, array $secrets): bool
{
    foreach ($secrets as $secret) {
        if (hash_equals('sha256=' . hash_hmac('sha256', $rawBody, $secret), $header ?? '')) {
            return true;
        }
    }
    return false;
}
