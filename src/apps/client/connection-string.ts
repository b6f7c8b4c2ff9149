/**
 * Reads a connection string as services and their documentation hand it out: with a password, with parameters of other
 * programs, in quotes, or as an argument of psql. Secrets are returned apart from the text to show. Pure.
 */
import { type DestinationType, destinationTypes, wordsOf } from '../../contract/destination-words.ts'
import type { Config } from '../../contract/destinations/config-field.ts'
import {
  type ConnectionUrl,
  ConnectionUrlError,
  decodedPart,
} from '../../contract/destinations/connection-url.ts'

export interface ReadString {
  /** With secrets. A key is missing if the string has no value for it. */
  config: Config
  /** The string with a mask in place of its password, and without unused parameters. */
  shown: string
  /** The names of parameters that have no effect. */
  unused: string[]
}

/** Stands for a password that was read before. A string with it keeps that password. */
export const passwordMask = '••••••••'

/** `[YOUR-PASSWORD]`, `<password>`, `****`: what services write instead of the password. */
const placeholder = /^(\[.*\]|<.*>|\*+|\$\{.*\})$/

/** True for a text that begins with a scheme of the type. It can still be malformed. */
export function isConnectionString(type: DestinationType, text: string): boolean {
  return hasSchemeOf(wordsOf(type).url, bareText(text))
}

/**
 * True if a part of the text can be a secret, also in a text that is malformed or not yet complete. The only colon of a
 * text without secrets is that of a port.
 */
export function mayHoldSecret(text: string): boolean {
  const rest = text.replace(/^[^:]*:\/\//, '').replace(`:${passwordMask}@`, '@')
  if (/pass|pwd|secret|token/i.test(rest)) return true
  return rest.includes(':') && !/^([^:@]*@)?(\[[^\]]*\]|[^:@]*):\d*[/?#][^@]*$/.test(rest)
}

/** Throws ConnectionUrlError. Its message never contains a secret. */
export function readConnectionString(type: DestinationType, given: string): ReadString {
  const text = bareText(given)
  const form = formOf(type, text)
  const original = parsed(text, form)
  const { secrets, bare } = split(form, original, text)
  const url = new URL(bare)
  const unused = [...url.searchParams]
    .filter(([name, value]) => !form.uses(name, value))
    .map(([name]) => name)
  for (const name of unused) url.searchParams.delete(name)
  const config = form.parse(url, unused.length === 0 ? bare : url.href)
  const known = Object.entries(secrets).filter(([, value]) => !isStandIn(String(value)))
  return {
    config: { ...config, ...Object.fromEntries(known) },
    shown: shownAs(url, known.length > 0 || Object.values(secrets).includes(passwordMask)),
    unused: [...new Set(unused)],
  }
}

/** The secrets in a URL, by their keys in the config, and the URL without them. Throws ConnectionUrlError. */
function split(form: ConnectionUrl, url: URL, text: string): { secrets: Config; bare: string } {
  const { username, password } = url
  const bare = new URL(url)
  bare.password = ''
  if (form.passwordKey !== undefined && password !== '')
    return { secrets: { [form.passwordKey]: decodedPart(password) }, bare: bare.href }
  if (form.basicKey === undefined || (username === '' && password === '')) return { secrets: {}, bare: text }
  bare.username = ''
  const bytes = new TextEncoder().encode(`${decodedPart(username)}:${decodedPart(password)}`)
  return { secrets: { [form.basicKey]: `Basic ${btoa(String.fromCharCode(...bytes))}` }, bare: bare.href }
}

function isStandIn(password: string): boolean {
  return password === passwordMask || placeholder.test(password)
}

function shownAs({ protocol, username, host, pathname, search }: URL, hasPassword: boolean): string {
  const user = username === '' ? '' : hasPassword ? `${username}:${passwordMask}@` : `${username}@`
  return `${protocol}//${user}${host}${pathname}${search}`
}

/** Without quotes, and without the program in front of it. */
function bareText(text: string): string {
  return /^\s*(?:(?:psql|mysql|mariadb|mysqlsh)\s+)?["']?(.*?)["']?\s*$/s.exec(text)?.[1] ?? ''
}

function hasSchemeOf(form: ConnectionUrl | undefined, text: string): boolean {
  return form?.schemes.some((scheme) => text.toLowerCase().startsWith(`${scheme}://`)) === true
}

function formOf(type: DestinationType, text: string): ConnectionUrl {
  const form = wordsOf(type).url
  if (form === undefined) throw new ConnectionUrlError('this type has no address', 'choose another type')
  if (hasSchemeOf(form, text)) return form
  const other = destinationTypes.find((one) => hasSchemeOf(wordsOf(one).url, text))
  if (other !== undefined)
    throw new ConnectionUrlError(`it is an address of the type ${wordsOf(other).title}`, 'choose that type')
  const schemes = form.schemes.map((scheme) => `${scheme}://`).join(', ')
  throw new ConnectionUrlError(
    /^jdbc:/i.test(text) ? 'it is a JDBC address' : `it begins with none of ${schemes}`,
    `write it as ${exampleOf(form)}`,
  )
}

function exampleOf({ field, form }: ConnectionUrl): string {
  return field?.example ?? form
}

function parsed(text: string, form: ConnectionUrl): URL {
  if (URL.canParse(text)) return new URL(text)
  const authority = text.slice(text.indexOf('://') + 3)
  const user = authority.slice(0, authority.lastIndexOf('@') + 1)
  if (/[/?#]/.test(user))
    throw new ConnectionUrlError(
      'its password has a character with another meaning',
      'write / as %2F, ? as %3F and # as %23',
    )
  if (/^[^/?#]*,/.test(authority)) throw new ConnectionUrlError('it names several hosts', 'name one of them')
  throw new ConnectionUrlError('it is not a valid address', `write it as ${exampleOf(form)}`)
}
