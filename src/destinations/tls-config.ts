/** `tls_ca`, `tls_cert` and `tls_key` in the config of a destination of any type. */
import type { X509Certificate } from 'node:crypto'
import { certificatesIn, normalPem, type PemFault, pairIn } from '../platform/pem.ts'

export interface TlsTexts {
  readonly tls_ca: string | null
  readonly tls_cert: string | null
  readonly tls_key: string | null
}

/**
 * The faults of certificates in a config. Never repeats their content. A certificate that is already `stored` may have expired
 * since: that must not block other changes.
 */
export function tlsFaults(
  { tls_ca: ca, tls_cert: cert, tls_key: key }: TlsTexts,
  stored: TlsTexts | undefined,
  now = Date.now(),
): [key: string, message: string][] {
  const faults: [string, string][] = []
  if (ca !== null && !Array.isArray(certificatesIn(ca))) faults.push(['tls_ca', mustBeCertificates])
  if (cert === null && key !== null) faults.push(['tls_cert', 'is required with tls_key'])
  if (key === null && cert !== null) faults.push(['tls_key', 'is required with tls_cert'])
  if (cert === null || key === null) return faults
  const leaf = pairIn(cert, key)
  if ('kind' in leaf) return [...faults, pairFault(leaf)]
  if (cert !== stored?.tls_cert && isExpired(leaf, now))
    faults.push(['tls_cert', `expired on ${dayOf(leaf)}: use a valid one`])
  return faults
}

/** For `tls.connect`: texts that `tlsFaults` accepts. */
export function tlsMaterial({ tls_ca: ca, tls_cert: cert, tls_key: key }: TlsTexts): {
  ca?: string
  cert?: string
  key?: string
} {
  return {
    ...(ca !== null && { ca: normalPem(ca) ?? ca }),
    ...(cert !== null && key !== null && { cert: normalPem(cert) ?? cert, key: normalPem(key) ?? key }),
  }
}

function pairFault({ kind }: PemFault): [key: string, message: string] {
  switch (kind) {
    case 'no_certificate':
    case 'damaged_certificate':
      return ['tls_cert', mustBeCertificates]
    case 'encrypted_key':
      return ['tls_key', 'must not be encrypted: store it without a passphrase']
    case 'no_key':
      return ['tls_key', 'must be a private key in PEM (-----BEGIN PRIVATE KEY-----)']
    case 'wrong_order':
      return ['tls_cert', 'must begin with the certificate of tls_key, followed by the intermediate ones']
    case 'other_key':
      return ['tls_key', 'must be the key of the first certificate in tls_cert']
  }
}

const mustBeCertificates = 'must be one or more certificates in PEM (-----BEGIN CERTIFICATE-----)'

function isExpired({ validTo }: X509Certificate, now: number): boolean {
  return Date.parse(validTo) <= now
}

function dayOf({ validTo }: X509Certificate): string {
  return new Date(Date.parse(validTo)).toISOString().slice(0, 10)
}
