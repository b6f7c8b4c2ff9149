/**
 * Reads settings with the precedence flag > environment > file > default. An invalid setting throws ConfigError,
 * whose one line names the setting and its valid values; the daemon exits with code 78. The table of settings is in
 * `settings.ts`.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import ipaddr from 'ipaddr.js'
import { parse as parseToml, TomlError } from 'smol-toml'
import { ConfigError } from '../platform/config-error.ts'
import { checkReplicaSettings, parseReplicaUrl } from './replica-settings.ts'
import { databaseUrl, entryWithPort, natsServers, shownUrl } from './server-urls.ts'
import {
  type ListenAddress,
  type SettingDefinition,
  type SettingKey,
  type Settings,
  settingDefinitions,
} from './settings.ts'

export type SettingOrigin = 'flag' | 'environment' | 'file' | 'default'

export interface LoadedSettings {
  settings: Settings
  /** The source of each value, for `config show --origin`. */
  origins: Record<string, SettingOrigin>
  /** The file that was read, if any. */
  file: string | null
}

export interface SettingSources {
  /** By setting key. Undefined: not set. */
  flags?: Partial<Record<SettingKey, string | undefined>>
  env?: Record<string, string | undefined>
  /** `--config` or PIPECTL_CONFIG. If set, the file must exist. */
  file?: string | undefined
}

/** Reads and validates all settings. Throws ConfigError for the first invalid one. */
export function loadSettings(sources: SettingSources): LoadedSettings {
  const env = sources.env ?? {}
  const file = sources.file ?? env.PIPECTL_CONFIG ?? null
  const fromFile = file === null ? new Map<string, unknown>() : readSettingsFile(file)
  const settings: Record<string, unknown> = {}
  const origins: Record<string, SettingOrigin> = {}
  for (const definition of settingDefinitions as readonly SettingDefinition[]) {
    const flag = sources.flags?.[definition.key as SettingKey]
    const variable = env[definition.env]
    let origin: SettingOrigin = 'default'
    let given: unknown = definition.fallback
    let label = definition.key
    if (fromFile.has(definition.key)) {
      origin = 'file'
      given = fromFile.get(definition.key)
      label = `${definition.key} (in ${file})`
    }
    if (variable !== undefined && variable !== '') {
      origin = 'environment'
      given = variable
      label = definition.env
    }
    if (flag !== undefined) {
      origin = 'flag'
      given = flag
      label = definition.flag ?? definition.key
    }
    settings[definition.key] = parseSetting(definition, given, label)
    origins[definition.key] = origin
  }
  const loaded = settings as unknown as Settings
  requireBothServers(loaded)
  requireWholePairs(loaded)
  checkReplicaSettings(loaded, loaded['metadata.url'] !== null)
  return { settings: loaded, origins, file }
}

/** Metadata and buffer are both on this machine or both in the cluster. */
function requireBothServers(settings: Settings): void {
  const keys = ['metadata.url', 'buffer.nats'] as const
  const [missing, ...others] = keys.filter((key) => settings[key] === null)
  if (missing === undefined || others.length > 0) return
  const [given] = keys.filter((key) => key !== missing)
  throw new ConfigError(
    `${missing}: is not set, but ${given} is: set both for a node of a cluster, or neither for a single machine`,
  )
}

/** A certificate needs its key. Those of `data_listen` need a `data_listen`. */
function requireWholePairs(settings: Settings): void {
  for (const prefix of ['tls.', 'tls.data_'] as const) {
    const keys = [`${prefix}cert_file`, `${prefix}key_file`] as const
    const [missing, ...others] = keys.filter((key) => settings[key] === null)
    const [given] = keys.filter((key) => settings[key] !== null)
    if (missing !== undefined && others.length === 0)
      throw new ConfigError(`${missing}: is not set, but ${given} is: TLS needs both`)
    if (given === 'tls.data_cert_file' && settings.data_listen === null)
      throw new ConfigError(`${given}: needs data_listen; with one listener, set tls.cert_file`)
  }
}

/** The value of a setting without passwords, for display. */
export function shownSetting(key: string, value: unknown): unknown {
  if (value === null) return null
  if (settingDefinitions.some((one) => one.key === key && one.kind === 'secret')) return '[set]'
  if (key === 'metadata.url') return shownUrl(String(value))
  return key === 'buffer.nats' ? (value as string[]).map(shownUrl) : value
}

function readSettingsFile(file: string): Map<string, unknown> {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw new ConfigError(
      `--config ${file}: cannot be read (${(error as NodeJS.ErrnoException).code})`,
      error,
      'name a TOML file that exists, or leave out --config and PIPECTL_CONFIG: every setting has a default',
    )
  }
  let table: Record<string, unknown>
  try {
    table = parseToml(text)
  } catch (error) {
    const at = error instanceof TomlError ? ` at line ${error.line}, column ${error.column}` : ''
    const line = error instanceof TomlError ? shownLine(text.split('\n')[error.line - 1] ?? '') : ''
    throw new ConfigError(
      `${file}: not valid TOML${at}${line}`,
      error,
      'correct that line, for example: listen = "127.0.0.1:8080"',
    )
  }
  const flat = new Map<string, unknown>()
  flatten(table, '', flat)
  const known = new Set<string>(settingDefinitions.map((definition) => definition.key))
  for (const key of flat.keys()) {
    if (!known.has(key))
      throw new ConfigError(
        `${key} (in ${file}): no such setting; \`pipectl config show\` lists all settings`,
      )
  }
  return flat
}

/** Hides the value of a setting that can contain a password, because a journal may keep this output. */
function shownLine(line: string): string {
  const [, key = '', value = ''] = /^\s*([\w."-]+)\s*=\s*(.*?)\s*$/.exec(line) ?? []
  if (key === '') return ''
  const isSecret = /url|nats|secret|password|token|key/i.test(key) || value.includes('@')
  const isBare = value !== '' && !/^["'[{]|^(true|false|[+-]?[\d_.]+)\s*(#|$)/.test(value)
  return `: ${key} = ${isSecret ? '…' : value}${isBare ? ' (a string needs quotes)' : ''}`
}

function flatten(table: Record<string, unknown>, prefix: string, into: Map<string, unknown>): void {
  for (const [key, value] of Object.entries(table)) {
    if (value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof Date)) {
      flatten(value as Record<string, unknown>, `${prefix}${key}.`, into)
    } else into.set(`${prefix}${key}`, value)
  }
}

type Parse = (value: unknown, label: string, definition: SettingDefinition) => unknown

const parseAs: Record<SettingDefinition['kind'], Parse> = {
  path: (value, label) =>
    typeof value === 'string' && value !== '' ? path.resolve(value) : reject(label, 'a path', value),
  address: parseAddress,
  url: parseUrl,
  bytes: parseQuantity,
  seconds: parseQuantity,
  hours: parseQuantity,
  interval: parseQuantity,
  count: parseQuantity,
  workers: parseWorkers,
  boolean: (value, label) => {
    if (value === true || value === 'true' || value === '1') return true
    if (value === false || value === 'false' || value === '0') return false
    return reject(label, 'true or false', value)
  },
  enum: (value, label, { values }) =>
    typeof value === 'string' && values?.includes(value)
      ? value
      : reject(label, `one of ${values?.join(', ')}`, value),
  cidrs: parseList,
  names: parseList,
  targets: parseList,
  // The invalid value can contain a password, so the message does not repeat it.
  database_url: (value, label) =>
    databaseUrl(value) ??
    fault(`${label}: must be a URL such as postgres://user:password@host:5432/database`),
  nats_servers: (value, label) =>
    natsServers(value) ??
    fault(
      `${label}: must be nats:// or tls:// URLs separated by commas, with one user, such as nats://a:4222,b:4222`,
    ),
  replicas: (value, label) =>
    ['1', '3'].includes(String(value)) ? Number(value) : reject(label, '1 or 3', value),
  name: (value, label, { pattern, allowed }) =>
    typeof value === 'string' && pattern?.test(value) ? value : reject(label, `${allowed}`, value),
  // The value is not repeated.
  secret: (value, label, { pattern, allowed }) =>
    typeof value === 'string' && pattern?.test(value) ? value : fault(`${label}: must be ${allowed}`),
  replica_url: (value, label) => {
    parseReplicaUrl(String(value), label)
    return value
  },
}

function parseSetting(definition: SettingDefinition, value: unknown, label: string): unknown {
  return value === null ? null : parseAs[definition.kind](value, label, definition)
}

function parseAddress(value: unknown, label: string, { key }: SettingDefinition): ListenAddress | null {
  if (value === 'off' && key === 'metrics.listen') return null
  const match = typeof value === 'string' ? /^(\[[0-9a-fA-F:.]+\]|[^:\s]+):(\d{1,5})$/.exec(value) : null
  const port = Number(match?.[2])
  if (match === null || port > 65535) {
    return reject(label, 'host:port with a port from 0 to 65535', value)
  }
  return { host: match[1]!.replace(/^\[|\]$/g, ''), port }
}

function parseUrl(value: unknown, label: string): string {
  if (
    typeof value === 'string' &&
    /^https?:\/\/[^\s/?#@"'\\]+(\/[^\s?#"'\\]*)?$/.test(value) &&
    URL.canParse(value)
  )
    return value.replace(/\/+$/, '')
  return reject(label, 'an http:// or https:// URL without query or fragment', value)
}

const KiB = 1024
const MiB = 1024 * KiB
const GiB = 1024 * MiB

const units: Record<string, Record<string, number>> = {
  bytes: {
    '': 1,
    b: 1,
    k: KiB,
    kib: KiB,
    kb: 1000,
    m: MiB,
    mib: MiB,
    mb: 1e6,
    g: GiB,
    gib: GiB,
    gb: 1e9,
    t: 1024 * GiB,
    tib: 1024 * GiB,
    tb: 1e12,
  },
  seconds: { '': 1, s: 1, m: 60, h: 3600 },
  hours: { '': 1, h: 1, d: 24 },
  interval: { '': 1, ms: 0.001, s: 1, m: 60 },
  count: { '': 1 },
}
const quantityHelp: Record<string, string> = {
  bytes: 'a size in bytes, or with a unit such as 512KiB, 64MiB, 20GiB',
  seconds: 'a duration in seconds, or with a unit such as 90s, 15m, 1h',
  hours: 'a duration in hours, or with a unit such as 36h, 7d',
  interval: 'a duration in seconds, or with a unit such as 500ms, 5s',
  count: 'a whole number',
}

function parseQuantity(value: unknown, label: string, definition: SettingDefinition): number {
  const match = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(String(value).trim())
  const factor = match ? units[definition.kind]?.[match[2]!.toLowerCase()] : undefined
  const { min = 0, max = Number.MAX_SAFE_INTEGER } = definition
  const quantity = match && factor !== undefined ? Number(match[1]) * factor : Number.NaN
  // Hours can be fractional (tests of retention use seconds), and intervals. Sizes and counts are whole numbers.
  const isFractional = definition.kind === 'hours' || definition.kind === 'interval'
  const whole = isFractional ? quantity : Math.floor(quantity)
  if (!(whole >= min) || whole > max) {
    const range = definition.max === undefined ? `at least ${min}` : `from ${min} to ${max}`
    return reject(label, `${quantityHelp[definition.kind]}, ${range}`, value)
  }
  return whole
}

function parseWorkers(
  value: unknown,
  label: string,
  { min = 1, max = 1 }: SettingDefinition,
): 'auto' | number {
  if (value === 'auto') return value
  const count = /^\d{1,3}$/.test(String(value)) ? Number(value) : Number.NaN
  if (count >= min && count <= max) return count
  return reject(label, `auto or a whole number from ${min} to ${max}`, value)
}

function parseList(value: unknown, label: string, { kind }: SettingDefinition): string[] {
  const items = typeof value === 'string' ? value.split(',') : value
  const list = Array.isArray(items)
    ? items.map((item) => String(item).trim()).filter((item) => item !== '')
    : null
  if (list === null) return reject(label, 'a list or comma-separated text', value)
  for (const given of list) {
    const item = kind === 'targets' ? withoutPort(given) : given
    const isRange = ipaddr.isValidCIDR(item) || ipaddr.isValid(item)
    const isName =
      kind !== 'cidrs' && /^(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$/i.test(item) && !/^[\d.]+$/.test(item)
    if (!isRange && !isName) {
      throw new ConfigError(`${label}: ${show(given)} is not ${listItems[kind as keyof typeof listItems]}`)
    }
  }
  return list
}

const listItems = {
  cidrs: 'an address or a CIDR',
  names: 'an address, a CIDR or a host name',
  targets: 'an address or a host name, with an optional port, or a CIDR',
}

/** The host of an entry such as `127.0.0.1:5432` or `[::1]:5432`. Other entries are returned unchanged. */
function withoutPort(entry: string): string {
  const [, bracketed, plain, port] = entryWithPort.exec(entry) ?? []
  return port === undefined || Number(port) < 1 || Number(port) > 65_535 ? entry : (bracketed ?? plain)!
}

function reject(label: string, allowed: string, value: unknown): never {
  return fault(`${label}: must be ${allowed}, not ${show(value)}`)
}

function fault(message: string): never {
  throw new ConfigError(message)
}

function show(value: unknown): string {
  return JSON.stringify(value) ?? String(value)
}

/** `host:port`, with an IPv6 address in brackets. */
export function formatAddress(address: ListenAddress): string {
  return `${address.host.includes(':') ? `[${address.host}]` : address.host}:${address.port}`
}
