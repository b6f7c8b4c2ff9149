/**
 * Driver of NATS JetStream: one message per record, each acknowledged by the stream before it counts as stored.
 *
 *   Nats-Msg-Id           the record's own id: the server drops a repetition within the stream's duplicate window
 *   Nats-Expected-Stream  if the config names a stream: any other stream rejects the message
 *
 * With a concurrency of 1 the stream keeps the order of the records, even after failures. With a higher concurrency, records
 * that were sent together with a failing one can be out of order.
 */
import { v5 } from 'uuid'
import type { Batch, DestinationDriver, DriverModule, DriverSettings, NatsSpec } from '../driver.ts'
import { DeliveryError, noProgress } from '../driver.ts'
import { protocolError } from '../guards.ts'
import { type SingleRecord, sendOneByOne, singleRecords } from '../one-by-one.ts'
import { rejectionOf } from '../park.ts'
import { subjectOf } from './addresses.ts'
import { checkNats } from './check.ts'
import type { Answer, NatsLink } from './connection.ts'
import { type ApiError, noStream, otherStream, permanent, publishError } from './errors.ts'
import { NatsServers } from './servers.ts'
import { messageBytes } from './wire.ts'

export const nats: DriverModule<NatsSpec> = { open: openNats, check: checkNats }

function openNats(spec: NatsSpec, settings: DriverSettings): DestinationDriver {
  const servers = new NatsServers(spec, settings)
  return {
    async deliver(batch, signal, progress = noProgress) {
      const subject = subjectOf(spec)
      const link = await servers.connect(signal).catch((error: unknown) => {
        throw ofMessage(error, batch.firstSeq)
      })
      const onAbort = () => link.close()
      signal.addEventListener('abort', onAbort, { once: true })
      try {
        const records = singleRecords(batch, spec.destinationId)
        const send = (record: SingleRecord) => publish({ link, subject }, spec, batch, record)
        await sendOneByOne({ batch, records, concurrency: spec.concurrency ?? 1, send }, signal, progress)
      } finally {
        signal.removeEventListener('abort', onAbort)
      }
    },
    async close() {
      servers.close()
    },
  }
}

async function publish(
  { link, subject }: { link: NatsLink; subject: string },
  { config, destinationId }: NatsSpec,
  { generation = 0 }: Batch,
  { id, body, seq, recordIndex }: SingleRecord,
): Promise<void> {
  // A rewind delivers the records again, although the stream may still remember their ids.
  const messageId = generation === 0 ? id : v5(`${id}:${generation}`, destinationId)
  const headers: [string, string][] = [['Nats-Msg-Id', messageId]]
  if (config.stream !== null) headers.push(['Nats-Expected-Stream', config.stream])
  headers.push(...Object.entries(config.headers))
  const bytes = messageBytes({ headers, payload: body })
  const { maxPayload } = link.info
  const answering =
    bytes > maxPayload
      ? Promise.reject(tooLarge(bytes, maxPayload))
      : link.request(subject, headers, body, config.timeout_ms)
  try {
    checkAcknowledgement(await answering, subject, config.stream)
  } catch (error) {
    const failure = ofMessage(error, seq)
    if (!(failure instanceof DeliveryError) || failure.fault !== 'records') throw failure
    throw failure.with({ rejected: rejectionOf(failure, { seq, recordIndex }) })
  }
}

function tooLarge(bytes: number, maxPayload: number): DeliveryError {
  const message = `The record makes a message of ${bytes} bytes; the NATS server accepts at most ${maxPayload} (its max_payload).`
  return permanent('max_payload', message, 'records')
}

/** `{"stream":"EVENTS","seq":7}` or `{"error":{"code":503,"err_code":10077,"description":"…"}}`. */
function checkAcknowledgement({ status, payload }: Answer, subject: string, stream: string | null): void {
  if (status === 503) throw noStream(subject)
  let said: { stream?: unknown; seq?: unknown; error?: unknown }
  try {
    said = Object(JSON.parse(payload.toString('utf8')))
  } catch (error) {
    throw notAnAcknowledgement(error)
  }
  if (said.error !== undefined) throw publishError(apiErrorOf(said.error), subject)
  if (typeof said.stream !== 'string' || !Number.isSafeInteger(said.seq)) throw notAnAcknowledgement()
  // Any subscriber to the subject can reply, and a server that ignores the header would accept the message.
  if (stream !== null && said.stream !== stream) throw otherStream(subject, said.stream)
}

function apiErrorOf(error: unknown): ApiError {
  const { code, err_code: number, description } = Object(error)
  return {
    code: Number.isSafeInteger(code) ? code : 0,
    err_code: Number.isSafeInteger(number) ? number : 0,
    description: typeof description === 'string' ? description : '',
  }
}

function notAnAcknowledgement(cause?: unknown): DeliveryError {
  return protocolError(
    'The response on this subject is not an acknowledgement of JetStream: a stream must keep the subject.',
    cause,
  )
}

/** Marks a permanent error with this message as the first one affected. */
function ofMessage(error: unknown, seq: number): unknown {
  return error instanceof DeliveryError && error.class === 'permanent'
    ? error.with({ failedSeq: seq })
    : error
}
