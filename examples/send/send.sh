#!/bin/sh
# Sends the lines of stdin, one JSON object each, to a pipe, with curl 7.71 or newer:  ./send.sh < records.ndjson
#
# PIPECTL_INGEST_URL is https://…/v1/ingest/PIPE_ID, PIPECTL_API_KEY a key with the scope ingest.
# Exits with 0 once every record is stored, otherwise with 1.
set -eu
if [ -z "${PIPECTL_INGEST_URL:-}" ] || [ -z "${PIPECTL_API_KEY:-}" ]; then
  echo "send: PIPECTL_INGEST_URL and PIPECTL_API_KEY must be set" >&2
  exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The key is in a file, because every user of the machine can read the arguments.
printf 'Authorization: Bearer %s\n' "$PIPECTL_API_KEY" >"$work/headers"

grep -v '^[[:space:]]*$' | split -l 500 - "$work/batch."
sent=0
for batch in "$work"/batch.*; do
  [ -e "$batch" ] || break
  # One key per batch, the same in every attempt: a batch whose response was lost is not stored again.
  idempotency_key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  # curl waits 1 s, 2 s, 4 s … or as long as Retry-After says, after 408, 429, 5xx and every failure without a status.
  status=$(curl -sS "$PIPECTL_INGEST_URL" --data-binary "@$batch" \
    -H "@$work/headers" -H 'Content-Type: application/x-ndjson' -H "Idempotency-Key: $idempotency_key" \
    --connect-timeout 5 --max-time 10 --retry 7 --retry-max-time 600 --retry-all-errors \
    -o "$work/response" -w '%{http_code}') || exit 1
  if [ "$status" != 202 ]; then
    echo "send: $status $(head -c 500 "$work/response")" >&2
    exit 1
  fi
  sent=$((sent + $(wc -l <"$batch")))
done
echo "$sent records stored"
