<?php
// PHP 7.4 or newer, without extensions (https needs openssl). Stored once the status is 202.
$response = file_get_contents(getenv('PIPECTL_INGEST_URL'), false, stream_context_create(['http' => [
    'method' => 'POST',
    'header' => [
        'Authorization: Bearer ' . getenv('PIPECTL_API_KEY'),
        'Content-Type: application/json',
    ],
    'content' => json_encode(['event' => 'signup', 'user_id' => 42]),
    'timeout' => 10,
    'ignore_errors' => true,
]]));
if (!preg_match('{^HTTP/\S+ 202}', $http_response_header[0] ?? '')) {
    fwrite(STDERR, "$response\n");
    exit(1);
}
