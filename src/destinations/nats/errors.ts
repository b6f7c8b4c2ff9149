/** Converts errors of a nats-server and its JetStream to a DeliveryError. Pure. */
import { DeliveryError, type DeliveryFault } from '../driver.ts'

/** `-ERR`: the connection is closed. */
export function serverError(text: string): DeliveryError {
  const lower = text.toLowerCase()
  if (lower.startsWith('permissions violation'))
    return permanent(
      'permissions_violation',
      `The NATS server denied it: ${text}. Allow this user to publish to the subject and to subscribe to _INBOX.>.`,
    )
  if (
    /^(authorization violation|user authentication (expired|revoked)|account authentication expired)/.test(
      lower,
    )
  )
    return permanent(
      'authorization_violation',
      `The NATS server rejected the log-in (${text}): check username and password, token, nkey_seed or credentials.`,
    )
  if (lower.startsWith('maximum payload'))
    return new DeliveryError(
      'transient',
      'max_payload',
      `The NATS server rejected a message (${text}): its maximum size is smaller now than at the time of the connection.`,
    )
  return new DeliveryError('transient', 'nats_error', `The NATS server closed the connection: ${text}`)
}

export interface ApiError {
  code: number
  err_code: number
  description: string
}

/** The reply to a publication reports an error. */
export function publishError(
  { code, err_code: number, description }: ApiError,
  subject: string,
): DeliveryError {
  const said = `JetStream rejected the message (${description || `error ${number}`})`
  const name = `jetstream_${number || code}`
  if (number === codes.tooLarge)
    return permanent(name, `${said}: the stream's max_msg_size is smaller than the record.`, 'records')
  if (number === codes.otherStream)
    return permanent(name, `${said}: another stream than the configured one keeps the subject ${subject}.`)
  if (number === codes.notEnabled || number === codes.notEnabledForAccount)
    return permanent(name, `${said}: enable JetStream on the server, for this account too.`)
  if (number === codes.sealed) return permanent(name, `${said}: the stream is sealed.`)
  // A full stream or a leader election: the same message can succeed later.
  return new DeliveryError('transient', name, `${said}.`)
}

const codes = {
  tooLarge: 10054,
  otherStream: 10060,
  sealed: 10109,
  notEnabledForAccount: 10039,
  notEnabled: 10076,
}

/** The acknowledgement names another stream than the config. */
export function otherStream(subject: string, named: string): DeliveryError {
  const message = `The message to ${subject} was acknowledged by the stream ${named}, not by the configured one: a different responder listens on this subject, or the server ignores Nats-Expected-Stream.`
  return permanent('other_stream', message)
}

export function noStream(subject: string): DeliveryError {
  const message = `No stream keeps the subject ${subject}: create one (\`nats stream add\`), or wait for the servers of its cluster.`
  return new DeliveryError('transient', 'no_stream', message)
}

export function notAcknowledged(timeoutMs: number): DeliveryError {
  const message = `The NATS server did not acknowledge a message within ${timeoutMs / 1000} s (timeout_ms).`
  return new DeliveryError('transient', 'timeout', message, { timedOut: 'unknown' })
}

export function permanent(
  code: string,
  message: string,
  fault: DeliveryFault = 'destination',
): DeliveryError {
  return new DeliveryError('permanent', code, message, { fault })
}
