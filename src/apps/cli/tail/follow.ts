/**
 * The work of `pipectl tail`: reads events over one connection after another, until the daemon ends the stream permanently.
 *
 *   connect ─▶ events ─▶ written ─▶ next piece …   disconnected, silent, or shutdown ─▶ wait ─▶ connect after the last id
 *
 * The next piece is read when the previous one is written. A slow reader slows down the daemon, which then counts the records
 * that it drops. Nothing is repeated, and every loss is counted, as far as the pipe keeps its records.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { counted } from '../../../platform/quantities.ts'
import type { Client } from '../../client/client.ts'
import { EventStreamError, EventStreamParser, type ServerEvent } from '../../client/event-stream.ts'
import {
  commandFailure,
  exitCodes,
  Failure,
  notFoundFailure,
  UnreachableFailure,
} from '../../client/failure.ts'
import { brokenConnection, parseObject } from '../../client/http.ts'
import { valueText } from '../../client/json-text.ts'
import { retryWaitMs, tryingAgain } from '../retry.ts'
import type { TailedRecord } from './records.ts'

export interface TailSettings {
  pipeId: string
  pipeName: string
  /** In the form of the operation. */
  query: Record<string, string>
  signal: AbortSignal
  /** Resolves when they are written. */
  onRecords(records: TailedRecord[]): Promise<void>
  onLeftOut(records: number): void
  /** Reports something that the user should know. */
  onNote(text: string): void
}

/** The daemon sends something at least every 10 s. */
const silentMs = 35_000

/** Ends with a Failure: interrupted, the pipe was deleted, the key was revoked, or the first connection failed. */
export async function follow(client: Client, settings: TailSettings): Promise<never> {
  const { signal, onNote } = settings
  let lastId: string | null = null
  let attempts = 0
  for (;;) {
    let cause: Failure
    try {
      const stream = await client.tail(settings.pipeId, settings.query, lastId, signal)
      if (lastId !== null) onNote(`connected again, continuing after ${lastId}`)
      attempts = 0
      const parser = new EventStreamParser()
      parser.lastEventId = lastId
      try {
        cause = await readAll(client.url, stream, parser, settings)
      } finally {
        lastId = parser.lastEventId
      }
    } catch (error) {
      if (signal.aborted) throw interrupted(settings, lastId)
      if (!(error instanceof Failure) || lastId === null) throw error
      cause = error
    }
    attempts += 1
    const waitMs = retryWaitMs(cause, attempts)
    if (waitMs === null) throw cause
    onNote(tryingAgain(cause.message, waitMs))
    await wait(waitMs, undefined, { signal }).catch(() => {
      throw interrupted(settings, lastId)
    })
  }
}

/** Resolves with the reason if the connection ended and another one can be opened. Otherwise throws Failure. */
async function readAll(
  url: string,
  stream: ReadableStream<Uint8Array>,
  parser: EventStreamParser,
  settings: TailSettings,
): Promise<Failure> {
  const reader = stream.getReader()
  try {
    for (;;) {
      const piece = await nextPiece(reader)
      if (piece === 'silent') return new UnreachableFailure(url, 'nothing arrived for a while')
      if (piece === null) return new UnreachableFailure(url, 'the connection was cut')
      const events = parser.push(piece)
      await handle(events, settings)
      if (events.some(({ name }) => name === 'end')) return new UnreachableFailure(url, 'it is shutting down')
    }
  } catch (error) {
    if (error instanceof EventStreamError) throw unknownForm(error)
    if (error instanceof Failure || settings.signal.aborted) throw error
    return brokenConnection(url, error)
  } finally {
    // Not awaited: cancelling a broken connection can fail or hang.
    void reader.cancel().catch(() => {})
  }
}

/** Null: the stream has ended. */
async function nextPiece(
  reader: ReadableStreamDefaultReader<Uint8Array>,
): Promise<Uint8Array | null | 'silent'> {
  let timer: NodeJS.Timeout | undefined
  const silence = new Promise<'silent'>((resolve) => {
    timer = setTimeout(() => resolve('silent'), silentMs)
  })
  const read = reader.read().then(({ value }) => value ?? null)
  try {
    return await Promise.race([read, silence])
  } finally {
    clearTimeout(timer)
    // After a silence its result is no longer needed.
    read.catch(() => {})
  }
}

async function handle(events: readonly ServerEvent[], settings: TailSettings): Promise<void> {
  const records: TailedRecord[] = []
  let end: Failure | null = null
  for (const { name, data } of events) {
    if (name === 'record') records.push(recordOf(data))
    else if (name === 'dropped') settings.onLeftOut(Number(parse(data).records))
    else if (name === 'end') end = endOf(String(parse(data).reason), settings)
  }
  if (records.length > 0) await settings.onRecords(records)
  if (end !== null) throw end
}

/** Null: continue with another connection. */
function endOf(reason: string, { pipeName }: TailSettings): Failure | null {
  if (reason === 'shutdown') return null
  if (reason === 'pipe_deleted')
    return notFoundFailure(
      `the pipe ${pipeName} was deleted (${reason})`,
      '`pipectl pipes list` shows the existing pipes',
    )
  if (reason === 'access_ended')
    return new Failure(
      exitCodes.auth,
      `the API key is no longer valid for this: revoked, expired, or bound to other pipes (${reason})`,
      'run the command again with an active key; `pipectl keys list` shows them',
    )
  return commandFailure(`the daemon ended the tail: ${reason}`, 'compare `pipectl --version` on both sides')
}

function recordOf(data: string): TailedRecord {
  const { msg_id: msgId, received_ts: receivedTs } = parse(data)
  const text = valueText(data, 'record')
  if (typeof msgId !== 'string' || typeof receivedTs !== 'string' || text === null) throw unknownForm()
  return { msgId, receivedTs, text, eventText: data }
}

function parse(data: string): Record<string, unknown> {
  const body = parseObject(data)
  if (body === null) throw unknownForm()
  return body
}

function unknownForm(cause?: EventStreamError): Failure {
  return commandFailure(
    `the daemon sent a response in an unknown format${cause === undefined ? '' : `: ${cause.message}`}`,
    'compare `pipectl --version` on both sides',
    cause,
  )
}

function interrupted({ pipeName }: TailSettings, lastId: string | null): Failure {
  const seq = lastId?.split('.')[0]
  const hint = seq === undefined ? '' : `\`pipectl tail ${pipeName} --after-seq ${seq}\` continues from there`
  return new Failure(exitCodes.interrupted, 'interrupted', hint)
}

/** The note about dropped records. */
export function leftOutNote(records: number, sample: string): string {
  return `${counted(records, 'record')} left out: more than ${sample} in a second, or larger than 256 KiB`
}
