/**
 * Geolocation of client addresses from a city-level MMDB file (docs/dev/contract.md#geolocation). The file can be
 * missing (lookups then find nothing and ingest continues), appear later, and be replaced: it is checked every few
 * seconds and reloaded when it has changed. If a new file is invalid, the error is logged and the loaded database is
 * kept.
 */
import { readFile, stat } from 'node:fs/promises'
import { type CityResponse, Reader } from 'maxmind'
import { errorCode } from '../platform/error-code.ts'
import type { Logger } from '../platform/log.ts'

/** A dimension without a value is absent. */
export interface GeoValues {
  country?: string
  region?: string
  city?: string
  postal?: string
  latitude?: number
  longitude?: number
  accuracyRadiusKm?: number
}

export interface Geo {
  /** Null when there is no database, or nothing is known about the address. Never throws. */
  lookup(address: string): GeoValues | null
  close(): void
}

export interface GeoOptions {
  /** Null when no database is configured. */
  file: string | null
  log: Logger
  /** How often the file is checked, in ms. */
  everyMs?: number
  /** Called with each loaded version of the file, for other threads. */
  onLoaded?: (bytes: SharedArrayBuffer) => void
}

/** For threads that do not watch the file: lookups use the version that the watching thread has loaded. */
export interface SharedGeo extends Geo {
  load(bytes: SharedArrayBuffer): void
}

export function createSharedGeo(bytes: SharedArrayBuffer | null): SharedGeo {
  let reader = bytes === null ? null : new Reader<CityResponse>(Buffer.from(bytes))
  return {
    load: (loaded) => {
      reader = new Reader<CityResponse>(Buffer.from(loaded))
    },
    lookup: (address) => (reader === null ? null : valuesOf(reader, address)),
    close: () => {},
  }
}

/** Resolves when the file, if it exists, is loaded. */
export async function openGeo(options: GeoOptions): Promise<Geo> {
  const { file, log, everyMs = 2000, onLoaded = null } = options
  if (file === null) return { lookup: () => null, close: () => {} }
  let reader: Reader<CityResponse> | null = null
  let seen: string | null = null

  const load = async () => {
    try {
      const bytes = await readFile(file)
      const loaded = readerOf(bytes)
      reader = loaded
      onLoaded?.(shared(bytes))
      log.info({ file, type: loaded.metadata.databaseType, built: loaded.metadata.buildEpoch }, 'geo.loaded')
    } catch (error) {
      if (errorCode(error) === 'ENOENT') log.warn({ file, kept: reader !== null }, 'geo.file_missing')
      else log.error({ file, kept: reader !== null, reason: String(error) }, 'geo.file_unreadable')
    }
  }
  // The version is read before the content: a file replaced in between is read again at the next check.
  const look = async () => {
    const version = await versionOf(file)
    if (version === seen) return
    seen = version
    if (version !== null) await load()
  }
  seen = await versionOf(file)
  await load()
  const looking = lookEvery(everyMs, look)

  return {
    lookup: (address) => (reader === null ? null : valuesOf(reader, address)),
    close: () => clearInterval(looking),
  }
}

function shared(bytes: Buffer): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(bytes.length)
  Buffer.from(memory).set(bytes)
  return memory
}

/** Runs one check at a time. */
function lookEvery(everyMs: number, look: () => Promise<void>): NodeJS.Timeout {
  let isLooking = false
  const timer = setInterval(async () => {
    if (isLooking) return
    isLooking = true
    await look().finally(() => {
      isLooking = false
    })
  }, everyMs)
  return timer.unref()
}

/** Changes with the file's content; null when the file cannot be accessed, usually because it does not exist. */
async function versionOf(file: string): Promise<string | null> {
  const found = await stat(file).catch(() => null)
  return found === null ? null : `${found.ino} ${found.size} ${found.mtimeMs}`
}

/** Throws when the bytes are not a database, or lookups in it fail. */
function readerOf(bytes: Buffer): Reader<CityResponse> {
  // The constructor also accepts truncated files, which fail only on lookups: try both ends of the tree.
  const loaded = new Reader<CityResponse>(bytes)
  if (!/City|Enterprise|Insights/i.test(loaded.metadata.databaseType)) {
    throw new Error(`not a city-level database but ${JSON.stringify(loaded.metadata.databaseType)}`)
  }
  for (const address of ['0.0.0.0', '192.0.2.1', '255.255.255.255']) loaded.get(address)
  if (loaded.metadata.ipVersion === 6)
    for (const address of ['::1', '2001:db8::1', 'ffff::']) loaded.get(address)
  return loaded
}

function valuesOf(reader: Reader<CityResponse>, address: string): GeoValues | null {
  // maxmind 5 returns a wrong record for an IPv6 lookup in an IPv4-only file.
  if (reader.metadata.ipVersion === 4 && address.includes(':')) return null
  let found: CityResponse | null
  try {
    found = reader.get(address)
  } catch {
    // A damaged part of the file counts as no data, because ingest must still succeed.
    return null
  }
  if (found === null) return null
  const region = found.subdivisions?.[0]
  return {
    country: text(found.country?.iso_code),
    region: text(region?.names?.en) ?? text(region?.iso_code),
    city: text(found.city?.names?.en),
    postal: text(found.postal?.code),
    latitude: number(found.location?.latitude),
    longitude: number(found.location?.longitude),
    accuracyRadiusKm: number(found.location?.accuracy_radius),
  }
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

function number(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}
