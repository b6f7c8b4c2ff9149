/**
 * The receivers of pulled messages. A sink resolves only when the message is processed: written and flushed, accepted
 * with 2xx, or the command exited with 0. The cursor moves only after that.
 */
import { spawn } from 'node:child_process'
import { fstatSync, fsyncSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { backoffMs } from '../../../platform/backoff.ts'
import { commandFailure } from '../../client/failure.ts'
import { retryAfterMs } from '../../client/http.ts'
import { singleLine } from '../../client/json-text.ts'
import { printableJson } from '../../client/printable.ts'
import { io } from '../io.ts'
import { writeData } from '../terminal.ts'

export interface PulledMessage {
  pipeId: string
  destinationId: string
  msgId: string
  seq: number
  /** The complete response of the daemon. */
  text: string
  /** The original text of each record. */
  records: string[]
}

export type PullFormat = 'ndjson' | 'json'
export type Sink = (message: PulledMessage, signal: AbortSignal) => Promise<void>

/**
 * The bytes of one message: its records, one per line, or the response on one line. On a terminal, control characters
 * are JSON escapes.
 */
export function messageText(message: PulledMessage, format: PullFormat, onTerminal = false): string {
  const texts = format === 'json' ? [message.text] : message.records
  const lines = texts.map((text) => `${singleLine(text)}\n`).join('')
  return onTerminal ? printableJson(lines) : lines
}

/** Writes to stdout. Resolves when the system has the bytes, and when they are on disk if stdout is a file. */
export function stdoutSink(format: PullFormat): Sink {
  const { fd } = io().stdout
  const isFile = fd !== undefined && fstatSync(fd).isFile()
  const onTerminal = io().stdout.isTTY === true
  return async (message) => {
    const problem = `message ${message.msgId} could not be written`
    const hint = 'run the command again: it begins with this message'
    await writeData(messageText(message, format, onTerminal), problem, hint)
    if (isFile) fsyncSync(fd)
  }
}

const forwardTimeoutMs = 60_000

interface Forwarding {
  url: string
  authHeader: string | undefined
  /** True: retries errors that can be temporary. */
  keepTrying: boolean
  onWait(reason: string, waitMs: number): void
}

/** POSTs each message to a URL. */
export function forwardSink(format: PullFormat, { url, authHeader, keepTrying, onWait }: Forwarding): Sink {
  return async (message, signal) => {
    const headers: Record<string, string> = {
      'content-type': format === 'json' ? 'application/json' : 'application/x-ndjson',
      'idempotency-key': message.msgId,
      'pipectl-stream-seq': String(message.seq),
    }
    if (authHeader !== undefined) headers.authorization = authHeader
    for (let attempt = 0; ; attempt += 1) {
      const outcome = await postOnce(url, headers, messageText(message, format), signal)
      if (outcome === 'stored') return
      if (!outcome.passing || !keepTrying) {
        throw commandFailure(
          `message ${message.msgId} was not accepted by ${new URL(url).origin}: ${outcome.why}`,
          'correct the receiver and run the command again: it begins with this message',
        )
      }
      const waitMs = outcome.retryAfterMs ?? backoffMs(attempt + 1, 1_000, 60_000)
      onWait(outcome.why, waitMs)
      await setTimeout(waitMs, undefined, { signal })
    }
  }
}

type Posted = 'stored' | { why: string; passing: boolean; retryAfterMs: number | null }

async function postOnce(
  url: string,
  headers: Record<string, string>,
  body: string,
  signal: AbortSignal,
): Promise<Posted> {
  const either = AbortSignal.any([signal, AbortSignal.timeout(forwardTimeoutMs)])
  try {
    const response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal: either })
    await response.arrayBuffer()
    if (response.status >= 200 && response.status < 300) return 'stored'
    const passing = [408, 425, 429].includes(response.status) || response.status >= 500
    return {
      why: `HTTP ${response.status}`,
      passing,
      retryAfterMs: retryAfterMs(response.headers.get('retry-after'), Date.now()),
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error)
    return { why: `no response (${cause})`, passing: true, retryAfterMs: null }
  }
}

/** Runs a shell command for each message, with the message on stdin and its ids in the environment. */
export function execSink(command: string, format: PullFormat): Sink {
  return async (message, signal) => {
    const child = spawn('/bin/sh', ['-c', command], {
      stdio: ['pipe', 'inherit', 'inherit'],
      signal,
      env: {
        ...io().env,
        PIPECTL_PIPE_ID: message.pipeId,
        PIPECTL_DESTINATION_ID: message.destinationId,
        PIPECTL_MSG_ID: message.msgId,
        PIPECTL_STREAM_SEQ: String(message.seq),
        PIPECTL_RECORDS_COUNT: String(message.records.length),
      },
    })
    const ended = new Promise<string | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (code, killedBy) => {
        resolve(
          code === 0 ? null : code === null ? `it was terminated by ${killedBy}` : `it exited with ${code}`,
        )
      })
    })
    // A command that exits before it has read all input closes the pipe. Only its exit code counts.
    child.stdin.on('error', () => {})
    child.stdin.end(messageText(message, format))
    const why = await ended
    if (why === null) return
    throw commandFailure(
      `the command failed for message ${message.msgId}: ${why}`,
      'correct the command and run pipectl again: it begins with this message',
    )
  }
}
