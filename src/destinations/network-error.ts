/** Converts network errors to a DeliveryError: always transient, with a sentence for users. */
import { DeliveryError } from './driver.ts'

const sentences: Record<string, string> = {
  ECONNREFUSED: 'refused the connection: check that the server is running and the port is correct.',
  ECONNRESET: 'reset the connection.',
  EPIPE: 'closed the connection.',
  ETIMEDOUT: 'could not be reached in time.',
  EHOSTUNREACH: 'cannot be reached: there is no route to it.',
  ENETUNREACH: 'cannot be reached: there is no route to its network.',
  ENOTFOUND: 'has a host name that does not resolve.',
  EAI_AGAIN: 'has a host name that could not be resolved at the moment.',
  UND_ERR_SOCKET: 'closed the connection before it responded.',
  UND_ERR_CONNECT_TIMEOUT: 'could not be reached in time.',
  UND_ERR_HEADERS_OVERFLOW: 'sent more headers than pipectl accepts.',
  HPE_HEADER_OVERFLOW: 'sent more headers than pipectl accepts.',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'sent a body whose length differs from Content-Length.',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'has a self-signed TLS certificate that this machine does not trust.',
  SELF_SIGNED_CERT_IN_CHAIN: 'has a TLS certificate of an authority that this machine does not trust.',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'has a TLS certificate of an issuer that this machine does not know.',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'has a TLS certificate of an issuer that this machine does not know.',
  CERT_HAS_EXPIRED: 'has an expired TLS certificate.',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: 'requires a client certificate: set tls_cert and tls_key.',
  ERR_SSL_TLSV1_ALERT_UNKNOWN_CA: 'does not trust the client certificate (tls_cert).',
  ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE: 'rejects the client certificate (tls_cert).',
  ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED: 'rejects the client certificate (tls_cert): it has expired.',
  ERR_TLS_CERT_ALTNAME_INVALID: 'has a TLS certificate for another host name.',
}

/** `subject` begins the sentence, e.g. `The database server`. A DeliveryError is returned unchanged, even if it is wrapped. */
export function networkError(error: unknown, subject: string): DeliveryError {
  const own = nestedDeliveryError(error)
  if (own !== null) return own
  const code = errorCode(error) ?? 'connection_lost'
  const fallback = isTlsCode(code)
    ? 'failed in the TLS handshake'
    : code.startsWith('HPE_')
      ? 'sent data that is not an HTTP response'
      : 'dropped the connection'
  const sentence = sentences[code] ?? `${fallback} (${code}).`
  return new DeliveryError('transient', code, `${subject} ${sentence}`, { cause: error })
}

function isTlsCode(code: string): boolean {
  return code.startsWith('ERR_SSL') || code === 'EPROTO'
}

/** Unwraps pipectl's own error (of the egress policy or a guarded socket) from a client library's error. */
export function nestedDeliveryError(error: unknown): DeliveryError | null {
  if (error instanceof DeliveryError) return error
  const isWrapped = typeof error === 'object' && error !== null && 'cause' in error
  return isWrapped ? nestedDeliveryError(error.cause) : null
}

/** The `code` of a system or library error, also searched for in its causes. */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  if ('code' in error && typeof error.code === 'string') return error.code
  if ('errors' in error && Array.isArray(error.errors)) return errorCode(error.errors[0])
  return 'cause' in error ? errorCode(error.cause) : undefined
}
