#!/usr/bin/env php
<?php
/**
 * Sends the lines of stdin, one JSON object each, to a pipe:  php send.php < records.ndjson
 *
 * PIPECTL_INGEST_URL is https://…/v1/ingest/PIPE_ID, PIPECTL_API_KEY a key with the scope ingest.
 * Exits with 0 once every record is stored, otherwise with 1. PHP 7.4 or newer, without extensions (https needs openssl).
 */
declare(strict_types=1);

const BATCH_RECORDS = 500;
const BATCH_BYTES = 1_000_000;
const ATTEMPTS = 8;
const TIMEOUT_SECONDS = 10;
const LONGEST_WAIT_SECONDS = 300;

function fail(string $message): void
{
    fwrite(STDERR, "send: $message\n");
    exit(1);
}

/** Status, text and Retry-After of the response; status 0 if there was none. */
function post(string $url, array $headers, string $body): array
{
    $http = [
        'method' => 'POST',
        'header' => $headers,
        'content' => $body,
        'timeout' => TIMEOUT_SECONDS,
        'protocol_version' => '1.1',
        'follow_location' => 0,
        'ignore_errors' => true,
    ];
    $text = @file_get_contents($url, false, stream_context_create(['http' => $http]));
    if ($text === false || !preg_match('{^HTTP/\S+ (\d+)}', $http_response_header[0] ?? '', $line)) {
        return [0, error_get_last()['message'] ?? '', 0];
    }
    $retryAfter = 0;
    foreach ($http_response_header as $header) {
        if (preg_match('{^Retry-After: *(\d+)}i', $header, $found)) {
            $retryAfter = (int) $found[1];
        }
    }
    return [(int) $line[1], $text, $retryAfter];
}

function sendBatch(string $url, string $apiKey, string $body): void
{
    $headers = [
        "Authorization: Bearer $apiKey",
        'Content-Type: application/x-ndjson',
        // The same key in every attempt: a batch whose response was lost is not stored again.
        'Idempotency-Key: ' . bin2hex(random_bytes(16)),
        'Connection: close',
    ];
    for ($attempt = 0; ; $attempt++) {
        [$status, $text, $retryAfter] = post($url, $headers, $body);
        if ($status === 202) {
            return;
        }
        $mayPass = in_array($status, [0, 408, 429], true) || $status >= 500;
        if (!$mayPass || $attempt === ATTEMPTS - 1) {
            fail("$status " . substr($text, 0, 500));
        }
        $backoff = 2 ** $attempt * random_int(500, 1000) / 1000;
        usleep((int) (min($retryAfter ?: $backoff, LONGEST_WAIT_SECONDS) * 1_000_000));
    }
}

$url = getenv('PIPECTL_INGEST_URL');
$apiKey = getenv('PIPECTL_API_KEY');
if (!$url || !$apiKey) {
    fail('PIPECTL_INGEST_URL and PIPECTL_API_KEY must be set');
}
$sent = $records = 0;
$batch = '';
while (($line = fgets(STDIN)) !== false) {
    if (trim($line) === '') {
        continue;
    }
    $batch .= rtrim($line, "\n") . "\n";
    $records++;
    if ($records === BATCH_RECORDS || strlen($batch) >= BATCH_BYTES) {
        sendBatch($url, $apiKey, $batch);
        $sent += $records;
        $records = 0;
        $batch = '';
    }
}
if ($records > 0) {
    sendBatch($url, $apiKey, $batch);
}
echo $sent + $records, " records stored\n";
