/** Rules for URLs and other plain texts in destination configs. Pure. */

/** Why this URL cannot be dialed, as a sentence after the key's name, or null. */
export function httpUrlFault(text: string): string | null {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    return 'must be a URL such as https://example.com/path'
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'must begin with http:// or https://'
  if (url.hostname === '') return 'must contain a host'
  return null
}

/** True for C0, C1 and DEL, and for line separators. They are never part of a name, and some servers' parsers fail on them. */
export function hasControlCharacters(text: string): boolean {
  return /[\p{Cc}\p{Zl}\p{Zp}]/u.test(text)
}
