/**
 * The certificates of a database connection: the server's (`tls_verify`, `tls_ca`) and the client's (`tls_cert`, `tls_key`).
 * Without them docs/dev/contract.md#database-tls applies: TLS except to this machine, and no verification.
 */
import { checkServerIdentity, type PeerCertificate, TLSSocket } from 'node:tls'
import { errorCode, messageOf } from '../../platform/error-code.ts'
import { type DatabaseSpec, DeliveryError } from '../driver.ts'
import { protocolError } from '../guards.ts'
import { tlsFaults, tlsMaterial } from '../tls-config.ts'
import { isOwnHost } from './columns.ts'

type DatabaseConfig = DatabaseSpec['config']

/**
 * docs/dev/contract.md#database-tls: TLS unless the host is this machine; `databaseTls` and certificates enable it there too.
 */
export function usesTls(config: DatabaseConfig, databaseTls: boolean): boolean {
  return databaseTls || !isOwnHost(config.host) || isVerified(config) || config.tls_cert !== null
}

export function isVerified({ tls_verify }: DatabaseConfig): boolean {
  return tls_verify !== 'none'
}

/** True if the responding server is certainly the one with this name, so that no other server can receive the data. */
export function isCertainlyHost({ tls_verify }: DatabaseConfig): boolean {
  return tls_verify === 'full'
}

/** For `tls.connect`, which only encrypts: `requireVerified` checks the server before anything is sent. */
export function tlsOptions(config: DatabaseConfig) {
  return { rejectUnauthorized: false, ...tlsMaterial(config) }
}

/** Throws a DeliveryError if the server is not the expected one. Nothing was sent to it. */
export function requireVerified(socket: unknown, { host, tls_ca, tls_verify }: DatabaseConfig): void {
  if (!(socket instanceof TLSSocket)) throw protocolError('The connection to the database server has no TLS.')
  if (!socket.authorized) throw untrusted(socket.authorizationError, tls_ca !== null)
  if (tls_verify !== 'full') return
  const certificate = socket.getPeerCertificate()
  if (checkServerIdentity(host, certificate) !== undefined) throw otherHost(host, certificate)
}

function untrusted(error: unknown, hasOwnCa: boolean): DeliveryError {
  const code = errorCode(error) ?? messageOf(error)
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID') {
    const when = code === 'CERT_HAS_EXPIRED' ? 'has expired' : 'is not valid yet'
    return refused('certificate_expired', `has a certificate that ${when}`, 'it must be renewed there')
  }
  const authority = hasOwnCa
    ? 'tls_ca does not contain its CA'
    : 'without tls_ca only the public authorities are trusted'
  return refused('certificate_untrusted', `has a certificate that is not trusted (${code})`, authority)
}

function otherHost(host: string, { subjectaltname, subject }: PeerCertificate): DeliveryError {
  const names = (subjectaltname ?? String(subject?.CN ?? 'nobody'))
    .slice(0, 200)
    .replace(/[^\x20-\x7e]/g, '?')
  const advice = 'correct host, or set tls_verify to ca to accept other names'
  return refused('certificate_other_host', `has a certificate for ${names}, not for ${host}`, advice)
}

function refused(code: string, what: string, advice: string): DeliveryError {
  const message = `The database server ${what}, and nothing was sent to it: ${advice}.`
  return new DeliveryError('permanent', code, message)
}

/** The faults of certificates in a config. Never repeats their content. */
export function certificateFaults(
  config: DatabaseConfig,
  stored: DatabaseConfig | undefined,
): [key: string, message: string][] {
  const isForNothing = config.tls_ca !== null && !isVerified(config)
  return isForNothing
    ? [
        ['tls_ca', 'requires tls_verify ca or full, not none'],
        ...tlsFaults({ ...config, tls_ca: null }, stored),
      ]
    : tlsFaults(config, stored)
}
