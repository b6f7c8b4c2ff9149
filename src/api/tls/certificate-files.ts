/**
 * Reads a certificate and its key from files. It detects every problem that would keep clients from using the pair
 * before it is served. The error is one line that names the setting and reveals nothing of the key.
 */
import { readFileSync, type Stats, statSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { ConfigError } from '../../platform/config-error.ts'
import { errorCode } from '../../platform/error-code.ts'
import { type PemFault, pairIn } from '../../platform/pem.ts'

export interface CertificateFiles {
  certFile: string
  keyFile: string
  /** The settings that name the files. */
  certSetting: string
  keySetting: string
}

export interface ServedCertificate {
  /** PEM: the server's certificate, then the intermediate certificates. */
  cert: Buffer
  key: Buffer
  expiresMs: number
  /** The fingerprint of the server's certificate, as hexadecimal with colons. */
  fingerprint: string
}

/** A chain with its key takes a few KiB. */
const maxBytes = 1024 * 1024

/** Throws ConfigError. An expired certificate is accepted, and `expiresMs` shows it. */
export function readCertificate({
  certFile,
  keyFile,
  certSetting,
  keySetting,
}: CertificateFiles): ServedCertificate {
  const cert = readPem(certSetting, certFile, 0)
  const key = readPem(keySetting, keyFile, othersBits)
  const leaf = pairIn(cert.toString('latin1'), key.toString('latin1'))
  if ('kind' in leaf)
    throw new ConfigError(
      faultText(leaf, { cert: `${certSetting}: ${certFile}`, key: `${keySetting}: ${keyFile}`, certFile }),
    )
  try {
    createSecureContext({ cert, key, minVersion: 'TLSv1.2' })
  } catch (error) {
    throw new ConfigError(`${certSetting}: ${certFile} cannot be used for TLS (${reasonOf(error)})`)
  }
  return { cert, key, expiresMs: Date.parse(leaf.validTo), fingerprint: leaf.fingerprint256 }
}

/** A group may read a key, so that a renewed key reaches the daemon without being readable by all users. */
const othersBits = 0o007

function readPem(setting: string, file: string, forbiddenBits: number): Buffer {
  let content: Buffer
  let stats: Stats
  try {
    stats = statSync(file)
    if (!stats.isFile()) throw new ConfigError(`${setting}: ${file} is not a file`)
    if (stats.size > maxBytes) throw new ConfigError(`${setting}: ${file} is larger than 1 MiB`)
    content = readFileSync(file)
  } catch (error) {
    if (error instanceof ConfigError) throw error
    const code = errorCode(error) ?? 'unknown error'
    throw new ConfigError(
      code === 'ENOENT'
        ? `${setting}: ${file} does not exist`
        : `${setting}: ${file} cannot be read by this user (${code})`,
    )
  }
  if ((stats.mode & forbiddenBits) !== 0) {
    const shown = (stats.mode & 0o777).toString(8).padStart(4, '0')
    throw new ConfigError(
      `${setting}: ${file} can be read by other users (mode ${shown}); run \`chmod o-rwx ${file}\``,
    )
  }
  return content
}

function faultText(fault: PemFault, labels: { cert: string; key: string; certFile: string }): string {
  switch (fault.kind) {
    case 'no_certificate':
      return `${labels.cert} contains no certificate in PEM`
    case 'damaged_certificate':
      return `${labels.cert}: its certificate ${fault.which} of ${fault.of} is damaged`
    case 'encrypted_key':
      return `${labels.key} is encrypted, and the daemon has no passphrase: store it without one (\`openssl pkey\`)`
    case 'no_key':
      return `${labels.key} contains no private key in PEM`
    case 'wrong_order':
      return `${labels.cert} is in the wrong order: the certificate of the key must be the first`
    case 'other_key':
      return `${labels.key} is not the key of the certificate in ${labels.certFile}`
  }
}

function reasonOf(error: unknown): string {
  return (error as { reason?: string }).reason ?? errorCode(error) ?? 'unknown error'
}
