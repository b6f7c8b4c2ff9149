<?php
// Receives what pipectl delivers, if it is genuine:  PIPECTL_SIGNING_SECRET=whsec_… php -S 127.0.0.1:8000 receive.php
declare(strict_types=1);

const TOLERANCE_SECONDS = 300;

/** Whether this body, the bytes as they arrived, was signed with this key less than five minutes ago. */
function isGenuine(array $headers, string $body, string $key): bool
{
    $id = $headers['HTTP_WEBHOOK_ID'] ?? '';
    $timestamp = $headers['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
    if ($id === '' || !preg_match('/\A[0-9]{1,12}\z/', $timestamp)) {
        return false;
    }
    if (abs(time() - (int) $timestamp) > TOLERANCE_SECONDS) {
        return false;
    }
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    // During a change of the secret there are several signatures.
    foreach (explode(' ', $headers['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $given) {
        if (hash_equals($expected, $given)) {
            return true;
        }
    }
    return false;
}

$secret = (string) getenv('PIPECTL_SIGNING_SECRET');
$key = (string) base64_decode(preg_replace('/\Awhsec_/', '', $secret), true);
if ($key === '') {
    http_response_code(500);
    exit('PIPECTL_SIGNING_SECRET must be set to whsec_ and base64');
}
// PHP discards a body that is larger than post_max_size.
$body = file_get_contents('php://input');
if (!isGenuine($_SERVER, $body, $key)) {
    http_response_code(401);
    exit;
}
// Store the records here, then respond. A repeated request has the same webhook-id.
error_log($_SERVER['HTTP_WEBHOOK_ID'] . " $body");
http_response_code(204);
