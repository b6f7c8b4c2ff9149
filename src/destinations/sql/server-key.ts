/**
 * Identifies a database server. With `tls_verify` its certificate does that. Without, the certificate is not verified
 * (docs/dev/contract.md#database-tls), and the expected server is the one with the private key of the first connection. Its
 * public key is pinned, durably, before anything is sent to it. A server with another key is rejected before the log-in.
 *
 *   TLS is up ─▶ a key is pinned ─── the same ───────────▶ log in
 *      │                └─────────── another ────────────▶ `certificate_changed`, nothing was sent
 *      └───────▶ none is pinned ──── pinned, durable ────▶ log in
 *
 * The key is pinned (SHA-256 of the SubjectPublicKeyInfo), not the certificate: a certificate that is renewed for the same key
 * belongs to the same server, and no other server can use it. Such a renewal needs no reset.
 */
import { createHash } from 'node:crypto'
import { TLSSocket } from 'node:tls'
import {
  type DatabaseSpec,
  DeliveryError,
  type DestinationCheck,
  type DriverSettings,
  type PinServerKey,
} from '../driver.ts'
import { protocolError } from '../guards.ts'
import { isVerified, requireVerified } from './certificates.ts'

/** Called once TLS is up, before anything is sent. If it rejects with a DeliveryError, send nothing and drop the socket. */
export type AdmitServer = (socket: unknown) => Promise<void>

/** For delivery: pins the key of an unknown server. */
export function pinnedOnFirstUse(
  { config }: DatabaseSpec,
  pin: PinServerKey,
  { pinsDatabaseKeys = true }: DriverSettings,
): AdmitServer {
  // A verified server can change its key.
  if (isVerified(config)) return async (socket) => requireVerified(socket, config)
  if (!pinsDatabaseKeys) return async () => {}
  return async (socket) => {
    const seen = keyFingerprint(socket)
    const pinned = await pin(seen).catch((error: unknown) => {
      throw notStored(error)
    })
    if (pinned === null) throw destinationChanged()
    if (pinned !== seen) throw certificateChanged(pinned, seen)
  }
}

/** For checks, which store nothing: reports what they found. */
export function comparedWithPin(
  spec: DatabaseSpec,
  { pinsDatabaseKeys = true }: DriverSettings,
  report: (check: DestinationCheck) => void = () => {},
): AdmitServer {
  if (isVerified(spec.config)) return verified(spec.config, report)
  const pinned = pinsDatabaseKeys ? (spec.pinnedKey ?? null) : null
  const next = pinsDatabaseKeys ? 'delivery pins the first key that it sees' : 'it is not pinned'
  return async (socket) => {
    const seen = keyFingerprint(socket)
    const changed = pinned === null || pinned === seen ? null : certificateChanged(pinned, seen)
    const message =
      pinned === null
        ? `The certificate is not verified. The SHA-256 of its public key is ${seen}: ${next}.`
        : `The server has the pinned key (SHA-256 ${seen}).`
    report({ name: 'certificate', ok: changed === null, message: changed?.message ?? message })
    if (changed !== null) throw changed
  }
}

function verified(config: DatabaseSpec['config'], report: (check: DestinationCheck) => void): AdmitServer {
  return async (socket) => {
    const name = 'certificate'
    try {
      requireVerified(socket, config)
    } catch (error) {
      if (error instanceof DeliveryError) report({ name, ok: false, message: error.message })
      throw error
    }
    const forHost = config.tls_verify === 'full' ? `, and it is valid for ${config.host}` : ''
    report({
      name,
      ok: true,
      message: `The certificate is verified: a trusted authority issued it${forHost}.`,
    })
  }
}

/** Lower-case hex. TLS has proved that the server has the private key, even if its certificate is not verified. */
function keyFingerprint(socket: unknown): string {
  try {
    const certificate = socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined
    if (certificate === undefined) throw new Error('there is no certificate')
    const key = certificate.publicKey.export({ type: 'spki', format: 'der' })
    return createHash('sha256').update(key).digest('hex')
  } catch (error) {
    throw protocolError('The key in the certificate of the database server cannot be read.', error)
  }
}

function certificateChanged(pinned: string, seen: string): DeliveryError {
  const message = `The database server has a different key than before, and nothing was sent to it. SHA-256 of its certificate's public key: pinned ${pinned}, now ${seen}. If the server has a new key, reset the pin (pipectl destinations reset-pin). If not, another server may be responding in its place.`
  return new DeliveryError('permanent', 'certificate_changed', message)
}

function destinationChanged(): DeliveryError {
  const message = 'The destination was changed during the connection; nothing was sent.'
  return new DeliveryError('transient', 'destination_changed', message)
}

function notStored(cause: unknown): DeliveryError {
  const message =
    'The key of the database server could not be pinned: the metadata cannot be written. Nothing was sent.'
  return new DeliveryError('transient', 'pin_not_stored', message, { cause })
}
