/**
 * A URL that can contain secrets: user information, query values, and the path if its destination says so. It is
 * shown as `https://[redacted]@host/path?a=[redacted]` or `https://host/[redacted]`. A client that sends this back
 * keeps the stored values. Works on the text, so that the URL is stored exactly as sent. Pure.
 */
import { redacted } from './destination-words.ts'

interface Parts {
  scheme: string
  /** Without the @. Null: none. */
  userInfo: string | null
  /** With the port. */
  host: string
  /** Starts with a slash, or is empty. */
  path: string
  /** The parts between the `&` of the query. Null: no query. */
  query: string[] | null
}

/** Splits a URL. Null if the text cannot be split safely. */
function split(url: string): Parts | null {
  // User information ends at the last @ before the path, as in URL parsers. They treat a backslash as a slash.
  const found =
    /^(https?:\/\/)(?:([^/?#\\\s]*)@)?([^/?#@\\\s]+)(\/[^?#\\\s]*)?(?:\?([^#\s]*))?(?:#\S*)?$/i.exec(url)
  if (found === null) return null
  const [, scheme = '', userInfo, host = '', path = '', query] = found
  return {
    scheme,
    userInfo: userInfo ?? null,
    host,
    path,
    query: query === undefined ? null : query.split('&'),
  }
}

export function hasUrlSecrets(url: string, isPathSecret = false): boolean {
  const parts = split(url)
  if (parts === null || parts.userInfo !== null || parts.query !== null) return true
  return isPathSecret && saysSomething(parts.path)
}

/** True if both URLs have the same path. A text that cannot be split equals no other. */
export function isSamePath(one: string, other: string): boolean {
  const path = split(one)?.path
  return path !== undefined && path === split(other)?.path
}

/** Every value that must not be shown, in the forms in which an error can contain it: as written and decoded. */
export function urlSecrets(url: string, isPathSecret = false): string[] {
  const parts = split(url)
  if (parts === null) return [url]
  const values = (parts.query ?? []).map((part) => part.slice(part.indexOf('=') + 1))
  const user = parts.userInfo === null ? [] : [parts.userInfo, ...parts.userInfo.split(':')]
  const path = isPathSecret ? pathSecrets(parts.path) : []
  return [...values, ...user, ...path]
    .flatMap((value) => [value, decoded(value)])
    .filter((value) => value !== '')
}

/** The complete path, and each segment that is long enough to be a token. */
function pathSecrets(path: string): string[] {
  return saysSomething(path) ? [path, ...path.split('/').filter((part) => part.length >= 6)] : []
}

function saysSomething(path: string): boolean {
  return path !== '' && path !== '/'
}

export function redactedUrl(url: string, isPathSecret = false): string {
  const parts = split(url)
  if (parts === null) return redacted
  return joined({
    ...parts,
    path: isPathSecret && saysSomething(parts.path) ? redactedPath : parts.path,
    userInfo: parts.userInfo === null ? null : redacted,
    query: parts.query?.map(redactedParameter) ?? null,
  })
}

/**
 * Replaces each `[redacted]` in a shown URL. `name` is the name of the query parameter, `userinfo`, `path`, `query`
 * for a parameter without a name, or null for a URL that is redacted completely.
 */
export function filledUrl(shown: string, fill: (name: string | null) => string): string {
  const parts = shown === redacted ? null : split(shown)
  if (parts === null) return shown === redacted ? fill(null) : shown
  const filled = (parameter: string) => {
    if (parameter === redacted) return fill('query')
    const name = parameter.endsWith(`=${redacted}`) ? parameter.slice(0, -redacted.length - 1) : null
    return name === null ? parameter : `${name}=${fill(name)}`
  }
  return joined({
    ...parts,
    userInfo: parts.userInfo === redacted ? fill('userinfo') : parts.userInfo,
    path: parts.path === redactedPath ? `/${fill('path')}` : parts.path,
    query: parts.query?.map(filled) ?? null,
  })
}

/**
 * Returns `given` with each `[redacted]` replaced by its stored value: the n-th parameter of a name takes the n-th
 * stored one. A mark without a stored value is kept and makes the URL invalid.
 */
export function restoredUrl(given: string, stored: string, isPathSecret = false): string {
  if (given === redactedUrl(stored, isPathSecret)) return stored
  const [parts, kept] = [split(given), split(stored)]
  if (parts === null || kept === null) return given
  const left = [...(kept.query ?? [])]
  const restore = (parameter: string) => {
    const at = left.findIndex((one) => redactedParameter(one) === parameter)
    return parameter.includes(redacted) && at !== -1 ? left.splice(at, 1)[0]! : parameter
  }
  return joined({
    ...parts,
    userInfo: parts.userInfo === redacted ? (kept.userInfo ?? redacted) : parts.userInfo,
    path: isPathSecret && parts.path === redactedPath ? kept.path : parts.path,
    query: parts.query?.map(restore) ?? null,
  })
}

/** A parameter without `=` can be a token. */
function redactedParameter(parameter: string): string {
  const at = parameter.indexOf('=')
  if (at === -1) return parameter === '' ? '' : redacted
  return at === parameter.length - 1 ? parameter : `${parameter.slice(0, at)}=${redacted}`
}

const redactedPath = `/${redacted}`

function joined({ scheme, userInfo, host, path, query }: Parts): string {
  return `${scheme}${userInfo === null ? '' : `${userInfo}@`}${host}${path}${query === null ? '' : `?${query.join('&')}`}`
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value.replaceAll('+', ' '))
  } catch {
    return value
  }
}
