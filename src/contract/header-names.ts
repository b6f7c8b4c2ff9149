/** Matches header names of HTTP endpoints whose values are probably secrets. */
const secretName = /key|token|secret|cookie|auth/i

/** A warning about names in `headers` that belong in `secret_headers`; null if there are none. */
export function openSecretsAdvice(headers: unknown): string | null {
  if (typeof headers !== 'object' || headers === null) return null
  const names = Object.keys(headers).filter((name) => secretName.test(name))
  if (names.length === 0) return null
  return `headers are stored unencrypted and shown: if ${names.join(', ')} is secret, move it to secret_headers.`
}
