/**
 * The directory in memory: one map of pipes and one of key hashes, filled at start from the source and replaced piece
 * by piece. The hot path only reads the maps.
 *
 * A key hash that is not in the map is looked for in the source, because another process (`pipectl workspaces
 * create`) may have made the key. Callers that ask for the same hash share one look-up, and a hash that was not there
 * is remembered as absent for a second: a client that repeats one unknown key reaches the file once a second and no more.
 * Both are dropped for a key that is refreshed, so one made here works at once. One key is refreshed at a time: what it
 * costs to make one does not grow with the keys there are.
 *
 * When keys were last used (docs/dev/contract.md#key-scopes), to the minute. A request sets a flag on its key and no more; the
 * flags are collected here every few seconds, those of the ingest threads too, and a key is stored once in a minute in
 * which it was used. What a crash loses is the last seconds of it.
 */
import type { ApiKeyScope } from '../../contract/api-key.ts'
import type {
  Directory,
  DirectoryKey,
  DirectoryPipe,
  DirectorySource,
  KnownKey,
} from '../../metadata/directory-source.ts'
import type { Logger } from '../../platform/log.ts'

const absentForMs = 1_000
/** At most this many absent hashes are remembered: clients with a new unknown key each time must not fill the memory. */
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
 * Two reloads of one entry may finish in either order; the one that was asked for last holds the newest state. An older
 * result that comes later is dropped. Both callers see a state at least as new as the one they asked for.
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
  /** Hashes that the source does not have, until when. */
  readonly #absent = new Map<string, number>()
  readonly #lookUps = new Map<string, Promise<KnownKey | undefined>>()
  /** The number of refreshes so far. */
  #refreshes = 0
  /** Used, and no longer known as they were. */
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
    // A refresh was asked for in between: this result may be older than a revocation. Ask again.
    if (refreshesBefore !== this.#refreshes) return await this.#lookUp(hash)
    if (key === null) {
      rememberAbsent(this.#absent, hash, this.#now() + absentForMs)
      return undefined
    }
    const found = knownKey(key)
    this.#replace(hash, found)
    return found
  }

  /** Its row is gone already. */
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

/** Entries are in the order they expire: the oldest go first. */
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
  /** Stores that they were used in the minute that began then. */
  store(apiKeyIds: readonly string[], minuteMs: number): Promise<void>
  /** The wall clock, ms. */
  now(): number
}

const everyMs = 5_000
const minuteMs = 60_000

export class KeyUse {
  readonly #options: KeyUseOptions
  /** Used since they were stored last. */
  readonly #used = new Set<string>()
  /** Those that the current minute is stored of. */
  readonly #stored = new Set<string>()
  #minute = 0

  constructor(options: KeyUseOptions) {
    this.#options = options
  }

  /** Returns what ends it. */
  start(log: Logger): () => void {
    const flush = () => this.flush().catch((error) => log.warn({ err: error }, 'keys.use_not_stored'))
    const timer = setInterval(flush, everyMs).unref()
    return () => clearInterval(timer)
  }

  /** Adds the keys that an ingest thread reports. */
  used(apiKeyIds: readonly string[]): void {
    for (const id of apiKeyIds) this.#used.add(id)
  }

  /** Rejects when it cannot be stored: the next time says it again. */
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
