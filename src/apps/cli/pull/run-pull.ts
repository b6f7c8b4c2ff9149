/**
 * The work of `pipectl pull`: at least once, in order, one message at a time.
 *
 *   pull?after_seq=done ──▶ message ──▶ sink (written, 2xx, exit 0) ──▶ save done ──▶ pull?after_seq=done …
 *
 * If it is killed at any point, the next run starts with the first message that was not saved. A message can be output twice,
 * but is never lost. With explicit acknowledgement the message is leased: ack after the sink, nack if the sink failed.
 */
import { setTimeout } from 'node:timers/promises'
import type { Destination } from '../../../contract/destination.ts'
import type { Client } from '../../client/client.ts'
import { ApiFailure, commandFailure, exitCodes, Failure } from '../../client/failure.ts'
import { parseObject } from '../../client/http.ts'
import { elementTexts, valueText } from '../../client/json-text.ts'
import { retryWaitMs, tryingAgain } from '../retry.ts'
import { type CursorFile, startAfter } from './cursor-file.ts'
import type { PulledMessage, Sink } from './sinks.ts'

export interface PullSettings {
  /** once: one message; drain: all present messages; follow: until interrupted. */
  mode: 'once' | 'drain' | 'follow'
  /** Continues after a gap that retention left, instead of failing. */
  acceptGap: boolean
  sink: Sink
  cursors: CursorFile
  signal: AbortSignal
  /** Reports a pause or a gap to the user. */
  onNote: (text: string) => void
}

/** How long one request waits for a message. */
const waitsMs = { follow: 25_000, once: 5_000, drain: 0 }

/** Resolves with the number of messages that the sink received. Throws Failure. */
export async function runPull(
  client: Client,
  destination: Destination,
  settings: PullSettings,
): Promise<number> {
  const { mode, signal } = settings
  const lane =
    destination.destination_config.ack_mode === 'explicit'
      ? leasedLane(client, destination.destination_id)
      : cursorLane(client, destination, settings)
  let messages = 0
  try {
    for (;;) {
      const message = await patiently(settings, () => lane.next(waitsMs[mode], signal))
      if (message !== null) {
        await settings.sink(message, signal).catch(async (error: unknown) => {
          await lane.refund(message)
          throw error
        })
        await lane.done(message)
        messages += 1
      }
      if (mode === 'once' || (mode === 'drain' && message === null)) break
    }
    await lane.end()
  } catch (error) {
    if (!signal.aborted) throw error
    throw new Failure(
      exitCodes.interrupted,
      `interrupted after ${messages} messages`,
      'run the command again: it continues where it stopped',
    )
  }
  return messages
}

interface Lane {
  /** The next message. Null: none arrived in time. */
  next(waitMs: number, signal: AbortSignal): Promise<PulledMessage | null>
  done(message: PulledMessage): Promise<void>
  refund(message: PulledMessage): Promise<void>
  /** Reports the last position to the daemon, so that processed messages are no longer shown as pending. */
  end(): Promise<void>
}

function cursorLane(client: Client, destination: Destination, settings: PullSettings): Lane {
  const { cursors } = settings
  const id = destination.destination_id
  const laneCursor = destination.lane.cursor_seq
  let doneSeq = startAfter(laneCursor, cursors.load())
  let toldSeq = laneCursor
  const ask = async (waitMs: number, signal?: AbortSignal) => {
    const asked = doneSeq
    const response = await client.pull(id, { waitMs, afterSeq: asked }, signal)
    toldSeq = asked
    return response
  }
  return {
    async next(waitMs, signal) {
      // Repeats after an accepted gap, because the messages after it are available.
      for (;;) {
        try {
          const response = await ask(waitMs, signal)
          return response.status === 204 ? null : decode(response.text, id)
        } catch (error) {
          const earliest = afterGap(error)
          if (!settings.acceptGap || earliest === null) throw error
          settings.onNote(gapNote(error, doneSeq, earliest))
          doneSeq = earliest - 1
        }
      }
    },
    async done(message) {
      doneSeq = message.seq
      cursors.save({ doneSeq, toldSeq })
    },
    async refund() {},
    async end() {
      if (toldSeq === doneSeq) return
      await ask(0)
      cursors.save({ doneSeq, toldSeq })
    },
  }
}

/** The first message after a gap. Null: the error is another one. */
function afterGap(error: unknown): number | null {
  const earliest =
    error instanceof ApiFailure && error.code === 'cursor_expired' ? error.body.earliest_seq : null
  return typeof earliest === 'number' ? earliest : null
}

function gapNote(error: unknown, doneSeq: number, earliest: number): string {
  return error instanceof ApiFailure && error.body.reason === 'restored'
    ? `the daemon was restored from a backup older than message ${doneSeq}; continuing with what it has accepted since`
    : `messages ${doneSeq + 1} to ${earliest - 1} were dropped by retention; continuing after them`
}

function leasedLane(client: Client, destinationId: string): Lane {
  return {
    async next(waitMs, signal) {
      const response = await client.pull(destinationId, { waitMs, afterSeq: null }, signal)
      return response.status === 204 ? null : decode(response.text, destinationId)
    },
    async done(message) {
      await client.settleLease(destinationId, 'ack', message.msgId)
    },
    async refund(message) {
      // The lease expires by itself. The user must see the failure of the sink.
      await client.settleLease(destinationId, 'nack', message.msgId).catch(() => {})
    },
    async end() {},
  }
}

/** A consumer that follows survives restarts of the daemon. The other modes fail immediately. */
async function patiently<T>(settings: PullSettings, ask: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask()
    } catch (error) {
      const waitMs = settings.mode === 'follow' ? retryWaitMs(error, attempt) : null
      if (waitMs === null || !(error instanceof Failure)) throw error
      settings.onNote(tryingAgain(error.message, waitMs))
      await setTimeout(waitMs, undefined, { signal: settings.signal })
    }
  }
}

function decode(text: string, destinationId: string): PulledMessage {
  const body = parseObject(text)
  const records = valueText(text, 'records')
  if (
    body === null ||
    records === null ||
    typeof body.stream_seq !== 'number' ||
    typeof body.msg_id !== 'string'
  ) {
    throw commandFailure(
      'the response to a pull has an unknown format',
      'compare `pipectl --version` on both sides',
    )
  }
  return {
    pipeId: String(body.pipe_id),
    destinationId,
    msgId: body.msg_id,
    seq: body.stream_seq,
    text,
    records: elementTexts(records),
  }
}
