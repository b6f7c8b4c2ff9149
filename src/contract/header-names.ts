/** Headers of HTTP endpoints whose names tell that their values are secrets. */
const secretName = /key|token|secret|cookie|auth/i

/** A sentence about the names in `headers` that belong into `secret_headers`; null when there are none. */
export function openSecretsAdvice(headers: unknown): string | null {
  if (typeof headers !== 'object' || headers === null) return null
  const names = Object.keys(headers).filter((name) => secretName.test(name))
  if (names.length === 0) return null
  return `headers are stored unencrypted and shown: if ${names.join(', ')} is secret, move it to secret_headers.`
}
