/**
 * Parses certificates and keys in PEM, for TLS listeners and for destinations. Callers word the faults; nothing here
 * repeats the content. Pure.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'

export type PemFault =
  | { kind: 'no_certificate' }
  /** `which` counts from 1. */
  | { kind: 'damaged_certificate'; which: number; of: number }
  | { kind: 'encrypted_key' }
  | { kind: 'no_key' }
  /** The key belongs to a certificate that is not the first one. */
  | { kind: 'wrong_order' }
  | { kind: 'other_key' }

/** Returns the certificates in the order of the text, at least one, or the fault. */
export function certificatesIn(text: string): X509Certificate[] | PemFault {
  const blocks = normalPem(text)?.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
  if (blocks.length === 0) return { kind: 'no_certificate' }
  const certificates: X509Certificate[] = []
  for (const block of blocks) {
    try {
      certificates.push(new X509Certificate(block))
    } catch {
      return { kind: 'damaged_certificate', which: certificates.length + 1, of: blocks.length }
    }
  }
  return certificates
}

/** Returns the first certificate, which must belong to the key, or the fault. Expiry is not checked. */
export function pairIn(cert: string, key: string): X509Certificate | PemFault {
  const chain = certificatesIn(cert)
  if (!Array.isArray(chain)) return chain
  const privateKey = privateKeyIn(key)
  if ('kind' in privateKey) return privateKey
  const [leaf] = chain
  if (leaf?.checkPrivateKey(privateKey)) return leaf
  return { kind: chain.some((one) => one.checkPrivateKey(privateKey)) ? 'wrong_order' : 'other_key' }
}

function privateKeyIn(text: string): KeyObject | PemFault {
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|Proc-Type: 4,ENCRYPTED/.test(text))
    return { kind: 'encrypted_key' }
  try {
    return createPrivateKey({ key: normalPem(text) ?? '', format: 'pem' })
  } catch {
    return { kind: 'no_key' }
  }
}

/**
 * Restores the line breaks of PEM text that a form or a prompt has joined into one line. Null when the text has no PEM
 * block.
 */
export function normalPem(text: string): string | null {
  const blocks = [...text.matchAll(/-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)-----END \1-----/g)]
  if (blocks.length === 0) return null
  return blocks
    .map(([, name, body = '']) => {
      const lines = body.replace(/\s+/g, '').match(/.{1,64}/g) ?? []
      return [`-----BEGIN ${name}-----`, ...lines, `-----END ${name}-----`, ''].join('\n')
    })
    .join('')
}
