/**
 * The directory in memory: a map of pipes and a map of key hashes, loaded from the source at the start and updated entry by
 * entry. The hot path only reads the maps.
 *
 * A key hash that is not in the map is looked up in the source, because another process (`pipectl workspaces create`) can
 * have created the key. Concurrent lookups of the same hash share one query, and a missing hash is cached as absent for a
 * second: a client that repeats an unknown key causes at most one query per second. A refresh of a key discards both, so a
 * new key works immediately. Keys are refreshed one at a time, so the cost of a new key does not grow with their number.
 *
 * The last use of keys (docs/dev/contract.md#key-scopes) is recorded to the minute. A request only sets a flag on its key.
 * The flags, including those of the ingest threads, are collected every few seconds, and a key is stored once per minute
 * of use. A crash loses only the last seconds. `createAuthenticate` is how requests use the keys.
 */
import type { ApiKeyScope } from '../../contract/api-key.ts'
import { ApiError } from '../../contract/errors.ts'
import type { Principal } from '../../contract/principal.ts'
import type {
  Directory,
  DirectoryKey,
  DirectoryPipe,
  DirectorySource,
  KnownKey,
} from '../../metadata/directory-source.ts'
import { hashApiKey, hasValidChecksum } from '../../metadata/key-tokens.ts'
import type { Logger } from '../../platform/log.ts'

const absentForMs = 1_000
/** The limit of hashes cached as absent: clients that send a new unknown key each time must not fill the memory. */
const absentMax = 10_000

export interface DirectoryCacheOptions {
  /** A monotonic clock in ms. */
  now?: () => number
  onPipeDeleted?: (pipeId: string) => void
}

/** Resolves once every pipe and key of the source is loaded. */
export async function openDirectory(
  source: DirectorySource,
  { now = () => performance.now(), onPipeDeleted = () => {} }: DirectoryCacheOptions = {},
): Promise<Directory> {
  const pipes = new Map<string, DirectoryPipe>()
  for (const entry of await source.allPipes()) pipes.set(entry.pipe.pipe_id, entry)
  const keys = new KeyCache(source, await source.allKeys(), now)
  const refreshPipe = createLatestWins(source.pipe, (pipeId, entry) => {
    if (entry !== null) pipes.set(pipeId, entry)
    else if (pipes.delete(pipeId)) onPipeDeleted(pipeId)
  })
  return {
    pipe: (pipeId) => pipes.get(pipeId),
    key: (hash) => keys.find(hash),
    refreshPipe: (pipeId) => refreshPipe(pipeId.toLowerCase()),
    refreshKey: (apiKeyId) => keys.refresh(apiKeyId.toLowerCase()),
    takeUsedKeys: () => keys.takeUsed(),
  }
}

/**
 * Two reloads of one entry can finish in either order; the later request has the newer state. An older result that
 * arrives later is dropped. Both callers see a state at least as new as they requested.
 */
function createLatestWins<T>(
  load: (id: string) => Promise<T>,
  apply: (id: string, loaded: T) => void,
): (id: string) => Promise<void> {
  const underWay = new Map<string, { asked: number; applied: number; waiting: number }>()
  return async (id) => {
    const state = underWay.get(id) ?? { asked: 0, applied: 0, waiting: 0 }
    underWay.set(id, state)
    state.asked += 1
    state.waiting += 1
    const mine = state.asked
    try {
      const loaded = await load(id)
      if (mine < state.applied) return
      state.applied = mine
      apply(id, loaded)
    } finally {
      state.waiting -= 1
      if (state.waiting === 0) underWay.delete(id)
    }
  }
}

class KeyCache {
  readonly #source: DirectorySource
  readonly #now: () => number
  readonly #known: Map<string, KnownKey>
  /** Hashes that the source does not have, with the time until which that is cached. */
  readonly #absent = new Map<string, number>()
  readonly #lookUps = new Map<string, Promise<KnownKey | undefined>>()
  /** The number of refreshes so far. */
  #refreshes = 0
  /** Keys that were used but are no longer in the map. */
  readonly #usedBefore = new Set<string>()
  readonly #refreshKey: (apiKeyId: string) => Promise<void>

  constructor(source: DirectorySource, loaded: ReadonlyMap<string, DirectoryKey>, now: () => number) {
    this.#source = source
    this.#now = now
    this.#known = new Map([...loaded].map(([hash, key]) => [hash, knownKey(key)]))
    this.#refreshKey = createLatestWins(source.keyById, (apiKeyId, key) => {
      if (key === null) this.#removeRevoked(apiKeyId)
      else {
        this.#absent.delete(key.hash)
        this.#replace(key.hash, key.isActive ? knownKey(key) : null)
      }
    })
  }

  find(hash: string): KnownKey | undefined | Promise<KnownKey | undefined> {
    const key = this.#known.get(hash)
    if (key !== undefined) return key
    const until = this.#absent.get(hash)
    if (until !== undefined) {
      if (this.#now() < until) return undefined
      this.#absent.delete(hash)
    }
    const shared = this.#lookUps.get(hash)
    if (shared !== undefined) return shared
    const own = this.#lookUp(hash).finally(() => this.#lookUps.delete(hash))
    this.#lookUps.set(hash, own)
    return own
  }

  refresh(apiKeyId: string): Promise<void> {
    this.#refreshes += 1
    return this.#refreshKey(apiKeyId)
  }

  takeUsed(): string[] {
    const used = new Set(this.#usedBefore)
    this.#usedBefore.clear()
    for (const key of this.#known.values()) {
      if (!key.isUsed) continue
      key.isUsed = false
      if (key.by.kind === 'key') used.add(key.by.apiKeyId)
    }
    return [...used]
  }

  async #lookUp(hash: string): Promise<KnownKey | undefined> {
    const refreshesBefore = this.#refreshes
    const key = await this.#source.key(hash)
    // A refresh was requested meanwhile: this result can be older than a revocation, so look it up again.
    if (refreshesBefore !== this.#refreshes) return await this.#lookUp(hash)
    if (key === null) {
      rememberAbsent(this.#absent, hash, this.#now() + absentForMs)
      return undefined
    }
    const found = knownKey(key)
    this.#replace(hash, found)
    return found
  }

  /** The key's row is already deleted. */
  #removeRevoked(apiKeyId: string): void {
    for (const [hash, { by }] of this.#known)
      if (by.kind === 'key' && by.apiKeyId === apiKeyId) this.#replace(hash, null)
  }

  #replace(hash: string, next: KnownKey | null): void {
    const before = this.#known.get(hash)
    if (before?.isUsed && before.by.kind === 'key') this.#usedBefore.add(before.by.apiKeyId)
    if (next === null) this.#known.delete(hash)
    else this.#known.set(hash, next)
  }
}

function knownKey({ workspaceId, apiKeyId, scopes, pipeIds, expiresMs }: DirectoryKey): KnownKey {
  const may = (scope: ApiKeyScope) => scopes.includes(scope) || scopes.includes('manage')
  return {
    workspaceId,
    by: { kind: 'key', apiKeyId },
    may: { ingest: may('ingest'), pull: may('pull'), read: may('read'), manage: may('manage') },
    pipeIds: pipeIds === null ? null : new Set(pipeIds),
    expiresMs: expiresMs ?? Number.POSITIVE_INFINITY,
    isUsed: false,
  }
}

/** Entries are in order of expiry: the oldest are removed first. */
function rememberAbsent(absent: Map<string, number>, hash: string, until: number): void {
  absent.delete(hash)
  absent.set(hash, until)
  if (absent.size <= absentMax) return
  for (const oldest of absent.keys()) {
    absent.delete(oldest)
    return
  }
}

export interface KeyUseOptions {
  directory: Pick<Directory, 'takeUsedKeys'>
  /** Records that these keys were used during the minute starting at `minuteMs`. */
  store(apiKeyIds: readonly string[], minuteMs: number): Promise<void>
  /** The wall clock in ms. */
  now(): number
}

const everyMs = 5_000
const minuteMs = 60_000

export class KeyUse {
  readonly #options: KeyUseOptions
  /** Keys used since the last store. */
  readonly #used = new Set<string>()
  /** Keys already stored for the current minute. */
  readonly #stored = new Set<string>()
  #minute = 0

  constructor(options: KeyUseOptions) {
    this.#options = options
  }

  /** Returns a function that stops it. */
  start(log: Logger): () => void {
    const flush = () => this.flush().catch((error) => log.warn({ err: error }, 'keys.use_not_stored'))
    const timer = setInterval(flush, everyMs).unref()
    return () => clearInterval(timer)
  }

  /** Adds the keys that an ingest thread reports. */
  used(apiKeyIds: readonly string[]): void {
    for (const id of apiKeyIds) this.#used.add(id)
  }

  /** Rejects when the store fails; the keys are stored with the next flush. */
  async flush(): Promise<void> {
    this.used(this.#options.directory.takeUsedKeys())
    const nowMs = this.#options.now()
    const minute = nowMs - (nowMs % minuteMs)
    if (minute !== this.#minute) this.#stored.clear()
    this.#minute = minute
    const ids = [...this.#used].filter((id) => !this.#stored.has(id))
    this.#used.clear()
    if (ids.length === 0) return
    for (const id of ids) this.#stored.add(id)
    try {
      await this.#options.store(ids, minute)
    } catch (error) {
      for (const id of ids) {
        this.#stored.delete(id)
        this.#used.add(id)
      }
      throw error
    }
  }
}

/** Returns a promise only for a key that the directory has not seen yet. Undefined when the key is not active. */
export type Authenticate = (authorization: string) => Principal | undefined | Promise<Principal | undefined>

const maxRemembered = 10_000
const scheme = /^Bearer +([^\s]+) *$/i

/**
 * Authenticates `Authorization: Bearer <API_KEY>` for management, pull and ingest. A missing, malformed, unknown,
 * revoked or expired key gives no principal: 401.
 *
 * Only the hash of each header is cached, so that the hot path does not hash. The directory is checked each time, so a
 * revoked key stops working as soon as the directory has removed it.
 *
 * `now` is the wall clock in ms.
 */
export function createAuthenticate(
  directory: Pick<Directory, 'key'>,
  now: () => number = Date.now,
): Authenticate {
  const hashes = new Map<string, string>()

  const remember = (header: string, hash: string) => {
    // Evicts only the oldest: with more active keys than cache entries, most requests still hit the cache.
    if (hashes.size >= maxRemembered) hashes.delete(hashes.keys().next().value!)
    hashes.set(header, hash)
  }

  const valid = (key: KnownKey | undefined): KnownKey | undefined => {
    if (key === undefined) return undefined
    // The clock is read only for keys that expire.
    if (key.expiresMs !== Number.POSITIVE_INFINITY && key.expiresMs <= now()) return undefined
    key.isUsed = true
    return key
  }

  return (authorization) => {
    const known = hashes.get(authorization)
    if (known !== undefined) {
      const key = directory.key(known)
      return key instanceof Promise ? key.then(valid) : valid(key)
    }
    const token = scheme.exec(authorization)?.[1]
    if (token === undefined || !hasValidChecksum(token)) return undefined
    const hash = hashApiKey(token)
    const principal = directory.key(hash)
    // Only existing keys are cached, so that guessed keys cannot evict them.
    if (principal instanceof Promise) {
      return principal.then((found) => {
        if (found !== undefined) remember(authorization, hash)
        return valid(found)
      })
    }
    if (principal !== undefined) remember(authorization, hash)
    return valid(principal)
  }
}

/**
 * Calls `next` for the caller: immediately when the key is known, otherwise after the directory has looked it up. Throws
 * or rejects with `unauthorized`, and with errors of `next`.
 */
export function admit<T>(
  authenticate: Authenticate,
  authorization: string,
  next: (principal: Principal) => T,
): T | Promise<T> {
  const found = authenticate(authorization)
  return found instanceof Promise ? found.then((late) => next(require(late))) : next(require(found))
}

function require(principal: Principal | undefined): Principal {
  if (principal === undefined) throw new ApiError('unauthorized')
  return principal
}
