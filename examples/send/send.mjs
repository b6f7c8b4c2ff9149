#!/usr/bin/env node
/**
 * Sends the lines of stdin, one JSON object each, to a pipe, with Node.js 18 or newer:  node send.mjs < records.ndjson
 *
 * PIPECTL_INGEST_URL is https://…/v1/ingest/PIPE_ID, PIPECTL_API_KEY a key with the scope ingest.
 * Exits with 0 once every record is stored, otherwise with 1.
 */
import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const { PIPECTL_INGEST_URL: url, PIPECTL_API_KEY: apiKey } = process.env
const batchRecords = 500
const batchBytes = 1_000_000
const attempts = 8
const timeoutMs = 10_000
const longestWaitSeconds = 300

try {
  if (!url || !apiKey) throw new Error('PIPECTL_INGEST_URL and PIPECTL_API_KEY must be set')
  console.log(`${await sendLines(createInterface({ input: process.stdin }))} records stored`)
} catch (error) {
  console.error(`send: ${error.message}`)
  process.exitCode = 1
}

/** Each batch is sent before the next one is read, so only one is in memory. */
async function sendLines(lines) {
  let sent = 0
  let batch = []
  let bytes = 0
  for await (const line of lines) {
    if (line.trim() === '') continue
    batch.push(line)
    bytes += Buffer.byteLength(line) + 1
    if (batch.length < batchRecords && bytes < batchBytes) continue
    sent += await sendBatch(batch)
    batch = []
    bytes = 0
  }
  return batch.length === 0 ? sent : sent + (await sendBatch(batch))
}

async function sendBatch(batch) {
  const request = {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${apiKey}`,
      'Content-Type': 'application/x-ndjson',
      // The same key in every attempt: a batch whose response was lost is not stored again.
      'Idempotency-Key': randomUUID(),
    },
    body: batch.join('\n'),
  }
  for (let attempt = 1; ; attempt++) {
    const { status, text, retryAfter } = await post(request)
    if (status === 202) return batch.length
    const mayPass = status === 0 || status === 408 || status === 429 || status >= 500
    if (!mayPass || attempt === attempts) throw new Error(`${status || 'no response'} ${text.slice(0, 500)}`)
    const backoff = 2 ** (attempt - 1) * (0.5 + Math.random() / 2)
    await sleep(Math.min(retryAfter || backoff, longestWaitSeconds) * 1000)
  }
}

/** Status 0: no response. */
async function post(request) {
  try {
    const response = await fetch(url, { ...request, signal: AbortSignal.timeout(timeoutMs) })
    const text = await response.text()
    return { status: response.status, text, retryAfter: Number(response.headers.get('Retry-After')) }
  } catch (error) {
    return { status: 0, text: error.cause?.message ?? error.message, retryAfter: 0 }
  }
}
