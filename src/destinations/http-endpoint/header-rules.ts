/** Extra headers of an HTTP endpoint destination (docs/dev/contract.md#destinations). Pure. */

/** `[name, message]` of every header that cannot be sent. */
export function headerErrors(headers: Readonly<Record<string, unknown>>): [string, string][] {
  const errors: [string, string][] = []
  const seen = new Set<string>()
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase()
    const message =
      nameError(lower) ??
      headerValueError(String(value)) ??
      (seen.has(lower) ? 'is given twice: names differ in case alone' : null)
    seen.add(lower)
    if (message !== null) errors.push([name, message])
  }
  return errors
}

/** Allows visible Latin-1, spaces and tabs; a line break would begin another header. */
export function headerValueError(value: string): string | null {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(value) ? null : 'must not hold line breaks or control characters'
}

/** Ours, the connection's, or a secret's: the client library rejects some of them, and each would break deliveries. */
const reserved = /^(host|connection|transfer-encoding|keep-alive|upgrade|expect|content-.*|webhook-.*)$/

function nameError(lower: string): string | null {
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(lower)) return 'is not a header name'
  if (reserved.test(lower)) return 'is set by the service and cannot be given'
  if (lower === 'authorization') return 'belongs into auth_header, where it is kept secret'
  return null
}
