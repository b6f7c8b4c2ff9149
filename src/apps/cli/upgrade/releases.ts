/**
 * Reads `releases.json`, which each release has next to its packages, and compares it with the running program. Nothing
 * reads it unless the user names its address.
 */
import { readFile, stat } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { isObject } from '../../../contract/is-object.ts'
import { messageOf } from '../../../platform/error-code.ts'
import { commandFailure, usageFailure } from '../../client/failure.ts'

export interface Release {
  version: string
  /** YYYY-MM-DD. */
  date: string
  /** The name of the release notes, relative to `releases.json`. */
  notes: string | null
  /** Markdown: what the operator does before the upgrade. */
  before_upgrade: string | null
  /** The oldest release whose data this one opens. */
  minimum_upgrade_from: string
  data_formats: DataFormats
}

export interface DataFormats {
  metadata: number
  log: number
}

/** The list has about 2 KB per release. */
const maxBytes = 2 ** 20
const timeoutMs = 15_000
const versionPattern = /^\d{1,9}\.\d{1,9}\.\d{1,9}(-[0-9A-Za-z.-]{1,64})?$/

/** `from`: the address of the file, or of its folder: https, http or file. Throws Failure (usage). */
export function releasesUrl(from: string): URL {
  const url = URL.canParse(from) ? new URL(from) : null
  if (url === null || !['https:', 'http:', 'file:'].includes(url.protocol))
    throw usageFailure(
      `${JSON.stringify(from)} is not an address`,
      'give the folder of a release: https://…, http://… or file:///…',
    )
  if (!url.pathname.endsWith('.json')) url.pathname = `${url.pathname.replace(/\/$/, '')}/releases.json`
  return url
}

/** Throws Failure when the file cannot be read within 15 seconds, is longer than 1 MiB, or is not a list of releases. */
export async function readReleases(url: URL): Promise<Release[]> {
  let text: string
  try {
    text = url.protocol === 'file:' ? await readLocal(url) : await download(url)
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
    throw commandFailure(`cannot read ${url.href}: ${messageOf(cause)}`, 'check the address of the releases')
  }
  return parseReleases(text, url.href)
}

async function readLocal(url: URL): Promise<string> {
  const file = fileURLToPath(url)
  if ((await stat(file)).size > maxBytes) throw tooLong
  return await readFile(file, 'utf8')
}

const tooLong = new Error('it is longer than 1 MiB')

async function download(url: URL): Promise<string> {
  const signal = AbortSignal.timeout(timeoutMs)
  const response = await fetch(url, { headers: { accept: 'application/json' }, signal })
  if (!response.ok) {
    await response.body?.cancel()
    throw new Error(`the server responded with status ${response.status}`)
  }
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > maxBytes) throw tooLong
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function parseReleases(text: string, place: string): Release[] {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw unreadable(place, 'it is not JSON')
  }
  if (!isObject(value) || typeof value.format !== 'number') throw unreadable(place, 'it has no format')
  if (value.format !== 1)
    throw unreadable(place, `it has format ${value.format}, which only newer versions read`)
  if (!Array.isArray(value.releases)) throw unreadable(place, 'it has no releases')
  return value.releases.map(
    (one) => parseRelease(one) ?? fail(unreadable(place, 'a release in it is incomplete')),
  )
}

function fail(error: Error): never {
  throw error
}

function unreadable(place: string, why: string): Error {
  return commandFailure(`${place} is not a list of releases: ${why}`, 'check the address of the releases')
}

/** Fields that are not known are ignored: a later version can add some. */
function parseRelease(value: unknown): Release | null {
  if (!isObject(value) || !isObject(value.data_formats)) return null
  const { version, date, notes = null, before_upgrade = null, minimum_upgrade_from: minimum } = value
  const { metadata, log } = value.data_formats
  if (!isVersion(version) || !isVersion(minimum) || typeof date !== 'string') return null
  if (!Number.isSafeInteger(metadata) || !Number.isSafeInteger(log)) return null
  return {
    ...{ version, date, minimum_upgrade_from: minimum },
    notes: typeof notes === 'string' ? notes : null,
    before_upgrade: typeof before_upgrade === 'string' ? before_upgrade : null,
    data_formats: { metadata: Number(metadata), log: Number(log) },
  }
}

function isVersion(value: unknown): value is string {
  return typeof value === 'string' && versionPattern.test(value)
}

/** Compares two versions by the rules of Semantic Versioning. Negative: `one` is older. */
export function compareVersions(one: string, other: string): number {
  const [first, second] = [one, other].map(partsOf) as [VersionParts, VersionParts]
  for (const index of [0, 1, 2]) {
    const difference = (first.numbers[index] ?? 0) - (second.numbers[index] ?? 0)
    if (difference !== 0) return difference
  }
  if (first.suffix === '' || second.suffix === '') return second.suffix.length - first.suffix.length
  return first.suffix.localeCompare(second.suffix, 'en', { numeric: true })
}

interface VersionParts {
  numbers: number[]
  /** `rc.1` of 1.0.0-rc.1. Empty for a release. */
  suffix: string
}

function partsOf(version: string): VersionParts {
  const [, core = '', suffix = ''] = /^([^-]*)-?(.*)$/.exec(version) ?? []
  return { numbers: core.split('.').map(Number), suffix }
}
