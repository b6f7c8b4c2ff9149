/**
 * Sends one batch until it is accepted. Repeats are safe, because the Idempotency-Key makes the daemon store it only
 * once. Waits as long as the daemon requests (429, 503: Retry-After), otherwise with increasing pauses. Gives up
 * after `patienceMs` without success.
 */
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { duration } from '../../../platform/quantities.ts'
import type { Client } from '../../client/client.ts'
import { ApiFailure, exitCodes, Failure } from '../../client/failure.ts'
import { retryWaitMs } from '../retry.ts'

const compress = promisify(gzip)

export interface SendSettings {
  gzip: boolean
  /** How long one batch is retried, including waits that the daemon requests. */
  patienceMs: number
  /** For a pipe that requires no key: an Origin that it allows. */
  origin: string | null
  signal: AbortSignal
  /** Called when a pause starts, to show a message. */
  onWait: (reason: string, waitMs: number) => void
}

/** Resolves on 202. Throws Failure otherwise. An abort throws the signal's reason. */
export async function sendBatch(
  client: Client,
  pipeId: string,
  { body, key }: { body: Buffer; key: string },
  settings: SendSettings,
): Promise<void> {
  const headers: Record<string, string> = { 'content-type': 'application/json', 'idempotency-key': key }
  if (settings.origin !== null) headers.origin = settings.origin
  // Level 1 already makes the body four times smaller. Higher levels cost more time than they save in transfer.
  const sent = settings.gzip ? await compress(body, { level: 1 }) : body
  if (settings.gzip) headers['content-encoding'] = 'gzip'
  const deadline = Date.now() + settings.patienceMs
  for (let attempt = 1; ; attempt += 1) {
    settings.signal.throwIfAborted()
    try {
      await client.ingest(pipeId, { body: sent, headers, signal: settings.signal })
      return
    } catch (error) {
      const waitMs = retryWaitMs(error, attempt, 250)
      if (waitMs === null || !(error instanceof Failure) || isMisconfigured(error)) throw error
      if (Date.now() + waitMs > deadline) throw givenUp(error, waitMs)
      settings.onWait(error.message, waitMs)
      await setTimeout(waitMs, undefined, { signal: settings.signal })
    }
  }
}

/** A 500 that only a change of the pipe ends. */
function isMisconfigured(error: Failure): boolean {
  return error instanceof ApiFailure && error.code === 'configuration_error'
}

function givenUp(error: Failure, waitMs: number): Failure {
  const when = waitMs > 60_000 ? `in ${duration(waitMs / 1000)}` : 'later'
  return new Failure(
    error.exitCode === exitCodes.ok ? exitCodes.failed : error.exitCode,
    error.message,
    `run the same command again ${when}: it continues where it stopped`,
    error,
  )
}
