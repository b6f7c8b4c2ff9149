/** POST …/destinations/test for NATS: connects, logs in, and asks which stream captures the subject. Nothing is published. */
import type { DestinationCheck, DriverSettings, NatsSpec } from '../driver.ts'
import { DeliveryError } from '../driver.ts'
import { subjectOf } from './addresses.ts'
import type { NatsLink } from './connection.ts'
import { NatsServers } from './servers.ts'

export async function checkNats(
  spec: NatsSpec,
  settings: DriverSettings,
  signal: AbortSignal,
): Promise<DestinationCheck[]> {
  const servers = new NatsServers(spec, settings)
  try {
    const link = await servers.connect(signal)
    const onAbort = () => link.close()
    signal.addEventListener('abort', onAbort, { once: true })
    const entered = { name: 'connect', ok: true, message: 'Connected to a NATS server.' }
    return [entered, await checkStream(link, spec)]
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error
    return [{ name: 'connect', ok: false, message: error.message }]
  } finally {
    servers.close()
  }
}

async function checkStream(link: NatsLink, spec: NatsSpec): Promise<DestinationCheck> {
  const subject = subjectOf(spec)
  const { stream, timeout_ms } = spec.config
  const result = (ok: boolean, message: string) => ({ name: 'stream', ok, message })
  const question = Buffer.from(JSON.stringify({ subject }))
  try {
    const { status, payload } = await link.request('$JS.API.STREAM.NAMES', [], question, timeout_ms)
    if (status === 503) return result(false, 'JetStream is not enabled for this account: enable it.')
    const names = streamNames(payload)
    if (names === null) return result(false, 'JetStream did not report which stream keeps the subject.')
    const [name] = names
    if (name === undefined)
      return result(false, `No stream keeps the subject ${subject}: create one with \`nats stream add\`.`)
    if (stream !== null && name !== stream)
      return result(false, `The subject ${subject} is kept by the stream ${name}, not by ${stream}.`)
    return result(true, `The stream ${name} keeps the subject ${subject}.`)
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error
    // A user who can publish is not necessarily allowed to list streams.
    const isForbidden = error.code === 'permissions_violation'
    if (isForbidden)
      return result(
        true,
        'Note: this user has no right to request the stream of the subject, so it was not checked.',
      )
    return result(false, error.message)
  }
}

/** Null: the reply lists no streams. */
function streamNames(payload: Buffer): string[] | null {
  try {
    const { streams, error } = Object(JSON.parse(payload.toString('utf8')))
    if (error !== undefined) return null
    return Array.isArray(streams) ? streams.filter((name) => typeof name === 'string') : []
  } catch {
    return null
  }
}
