<?php
/**
 * A receiver of berth's webhooks: checks each, answers at once, and works afterwards.
 *
 *     WEBHOOK_SECRET=… php -S 0.0.0.0:9000 receiver.php      (to try it; PHP-FPM in earnest)
 *
 * WEBHOOK_SECRET is the secret of the account's webhook. WEBHOOK_SECRETS has those of directories with one of their own, as
 * JSON: {"<directory id>": "<secret>"}.
 */
declare(strict_types=1);

const LARGEST = 1 << 20;
const TOLERANCE = 300;

$shared = getenv('WEBHOOK_SECRET') ?: null;
$secrets = json_decode(getenv('WEBHOOK_SECRETS') ?: '{}', true, flags: JSON_THROW_ON_ERROR);
if ($shared === null && $secrets === []) {
    throw new RuntimeException('neither WEBHOOK_SECRET nor WEBHOOK_SECRETS is set');
}
// Over the raw body: JSON that was parsed and written again has other bytes.
$body = (string) file_get_contents('php://input', length: LARGEST);
$id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
// The directory in the body can be trusted only after the signature has been verified with its secret.
$event = json_decode($body, true);
$directory = is_array($event) ? ($event['directory_id'] ?? '') : '';
$secret = (is_string($directory) ? ($secrets[$directory] ?? null) : null) ?? $shared;
if (!is_array($event) || $secret === null || !isSigned($body, $id, signingKey($secret))) {
    http_response_code(401);
    exit;
}
$isNew = take($id);
// berth waits for 5 s, and then repeats the webhook.
answer(204);
// There is no file behind a test. Other events have to be asked for.
if ($isNew && ($event['event'] ?? '') === 'file.uploaded' && !($event['test'] ?? false)) {
    work($event);
}

/** Whether webhook-signature is right (Standard Webhooks) and webhook-timestamp near this machine's clock. */
function isSigned(string $body, string $id, string $key): bool
{
    $timestamp = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
    if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > TOLERANCE) {
        return false;
    }
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, binary: true));
    // There are two while a secret is being replaced.
    foreach (explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $signature) {
        if (hash_equals($expected, $signature)) {
            return true;
        }
    }
    return false;
}

/** Base64 as Standard Webhooks has it, or berth's older secrets in the URL alphabet. Any other text is the key itself. */
function signingKey(string $secret): string
{
    $text = preg_replace('/^whsec_/', '', $secret);
    $isBase64 = preg_match('~^(?:[A-Za-z0-9+/]+={0,2}|[A-Za-z0-9_-]{32})$~D', $text) === 1;
    return $isBase64 && strlen(rtrim($text, '=')) % 4 !== 1 ? base64_decode(strtr($text, '-_', '+/')) : $secret;
}

/** False for a webhook that was taken before. In earnest, a unique column of your database does the same. */
function take(string $id): bool
{
    $folder = getenv('WEBHOOK_FOLDER') ?: sys_get_temp_dir() . '/berth-webhooks';
    is_dir($folder) || mkdir($folder, 0700, true);
    $file = $folder . '/' . hash('sha256', $id);
    if (@fopen($file, 'x') !== false) {
        return true;
    }
    // The folder cannot be written to: fail, so that berth repeats the webhook.
    file_exists($file) || throw new RuntimeException("cannot write to $folder");
    return false;
}

function answer(int $status): void
{
    http_response_code($status);
    if (function_exists('fastcgi_finish_request')) {
        fastcgi_finish_request();
    }
}

function work(array $event): void
{
    file_put_contents('php://stdout', "uploaded {$event['filename']}\n");
}
